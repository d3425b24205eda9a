#pragma once
// OpenSSL 3. The inline functions below stand for function-like macros, which Swift cannot import.
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

static inline long ossl_ctx_min_tls12(SSL_CTX *c) { return SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION); }
static inline long ossl_ctx_partial_write(SSL_CTX *c) {
  return SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
}
static inline long ossl_set_sni(SSL *s, const char *name) { return SSL_set_tlsext_host_name(s, name); }
