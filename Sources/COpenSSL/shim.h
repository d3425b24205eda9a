#pragma once
// OpenSSL 3. The inline functions below stand for function-like macros and variadic functions, which Swift cannot import.
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

static inline long ossl_ctx_min_tls12(SSL_CTX *c) { return SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION); }

// Non-blocking writes out of Swift arrays: a write may be partial, and may be repeated from another address.
static inline long ossl_ctx_partial_write(SSL_CTX *c) {
  return SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
}

// Every connection is a full handshake: a resumed session would show the certificate of an earlier one.
static inline void ossl_ctx_no_resumption(SSL_CTX *c) {
  SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(c, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
}

static inline void ossl_ctx_read_ahead(SSL_CTX *c) { SSL_CTX_set_read_ahead(c, 1); }
static inline long ossl_set_sni(SSL *s, const char *name) { return SSL_set_tlsext_host_name(s, name); }

// A BIO that reads and writes through another TLS session and owns it: TLS inside an HTTPS proxy's TLS.
static inline BIO *ossl_bio_over(SSL *s) {
  BIO *b = BIO_new(BIO_f_ssl());
  if (b) BIO_set_ssl(b, s, BIO_CLOSE);
  return b;
}

static inline int ossl_is_unexpected_eof(unsigned long e) {
  return ERR_GET_LIB(e) == ERR_LIB_SSL && ERR_GET_REASON(e) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
}
// What the peer sent is no TLS at all, most likely plain HTTP.
static inline int ossl_is_no_tls(unsigned long e) {
  if (ERR_GET_LIB(e) != ERR_LIB_SSL) return 0;
  int r = ERR_GET_REASON(e);
  return r == SSL_R_WRONG_VERSION_NUMBER || r == SSL_R_HTTP_REQUEST || r == SSL_R_PACKET_LENGTH_TOO_LONG;
}

static inline EVP_PKEY *ossl_new_p256_key(void) { return EVP_EC_gen("P-256"); }

static inline int ossl_x509_add_extension(X509 *cert, int nid, const char *value) {
  X509V3_CTX ctx;
  X509V3_set_ctx_nodb(&ctx);
  X509V3_set_ctx(&ctx, cert, cert, NULL, NULL, 0);
  X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
  if (!e) return 0;
  int ok = X509_add_ext(cert, e, -1);
  X509_EXTENSION_free(e);
  return ok;
}

// The subject as RFC 2253 text with control characters escaped, cut to n - 1 bytes. Returns the length.
static inline int ossl_x509_subject(const X509 *cert, char *out, int n) {
  BIO *b = BIO_new(BIO_s_mem());
  if (!b) return 0;
  int length = 0;
  if (X509_NAME_print_ex(b, X509_get_subject_name(cert), 0, XN_FLAG_RFC2253) >= 0) length = BIO_read(b, out, n - 1);
  BIO_free(b);
  return length < 0 ? 0 : length;
}
