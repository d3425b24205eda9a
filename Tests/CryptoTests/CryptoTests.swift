import Crypto
import System
import Testing

@Suite("Ed25519 signatures")
struct SigningKeyTests {
  static let seed = (UInt8(0)..<32).map { $0 }

  @Test("the protocol's seed gives its public key and device id")
  func key() throws {
    let key = try SigningKey(seed: Self.seed)
    #expect(hexadecimal(key.publicKey) == "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8")
    #expect(Base64.encodeURL(key.publicKey) == "A6EHv_POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg")
    #expect(
      hexadecimal(sha256(key.publicKey)) == "56475aa75463474c0285df5dbf2bcab73da651358839e9b77481b2eab107708c")
  }

  static let device = "56475aa75463474c0285df5dbf2bcab73da651358839e9b77481b2eab107708c"
  static let nodeFields = "|openclaw-ios|node|node||1767225600000|example-token"
  static let nodeNonce = "|11111111-2222-4333-8444-555555555555"
  static let operatorFields = "|openclaw-ios|ui|operator|operator.read,operator.write|1767225600123|"
  static let operatorNonce = "|aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"

  @Test(
    "the protocol's test vectors come out byte for byte (§4.5, §4.6)",
    arguments: [
      (
        "v1|" + device + nodeFields,
        "MCW4-P9OzuygqU_ZFrZUFVR7GBZWPj-iSbez6zz2ogPl9gcv4m3eDpIB3vWh6tsgJxuuhQ-EmT2_QDU1kWaQAQ"
      ),
      (
        "v2|" + device + nodeFields + nodeNonce,
        "m_tTX4ANxraumQdWGzDpGEG4b-83sMvkkiaij8XMbHrJKehj_oZ8-YRq_sfQyTXJT0mwabi35ZZ5dUcSVY9NDw"
      ),
      (
        "v3|" + device + nodeFields + nodeNonce + "|linux|linux",
        "rEcQj8n715Gh013_LUeihNCGrpT9icXQpo7nKyhMzJvjH95EHx2G9VT5ieh8C0QJKQi1AoeiKY5P9yIgC1XSDg"
      ),
      (
        "v2|" + device + operatorFields + operatorNonce,
        "OwAZAfCKhHssvr6679i1bLDDAM36U-lHG9NfrC-8f8r2zNg0IwNhhUDsPWV5Z18xUCRip30uzpTkA-EnhImGCg"
      ),
      (
        "v3|" + device + operatorFields + operatorNonce + "|ios 26.0.1|iphone",
        "9jp36d0Oha8la8RBVXBbBw82mgR6AYsHIJB2qPr0oDJf1Pv-pn01KKRa5CvjoY-Vl1StBWOzltPz2UzXlpO9DQ"
      ),
    ])
  func vectors(payload: String, signature: String) throws {
    let key = try SigningKey(seed: Self.seed)
    let made = try key.sign(Array(payload.utf8))
    #expect(Base64.encodeURL(made) == signature)
    #expect(SigningKey.verify(made, of: Array(payload.utf8), publicKey: key.publicKey))
  }

  @Test("the first vectors of RFC 8032 come out byte for byte")
  func rfc8032() throws {
    let empty = try SigningKey(
      seed: #require(bytes(hexadecimal: "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")))
    #expect(hexadecimal(empty.publicKey) == "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
    #expect(
      hexadecimal(try empty.sign([]))
        == "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
        + "d25bf5f0595bbe24655141438e7a100b")
  }

  @Test("a signature fits its message and its key, and nothing else")
  func verification() throws {
    let key = try SigningKey()
    let message = Array("hello".utf8)
    let signature = try key.sign(message)
    #expect(SigningKey.verify(signature, of: message, publicKey: key.publicKey))
    #expect(!SigningKey.verify(signature, of: message + [0], publicKey: key.publicKey))
    #expect(!SigningKey.verify(signature, of: message, publicKey: try SigningKey().publicKey))
    for index in [0, 31, 32, 63] {
      var damaged = signature
      damaged[index] ^= 1
      #expect(!SigningKey.verify(damaged, of: message, publicKey: key.publicKey))
    }
  }

  @Test("keys and signatures of a wrong size are refused, not read beyond")
  func sizes() throws {
    let key = try SigningKey(seed: Self.seed)
    for count in [0, 1, 31, 33, 64] {
      #expect(throws: CryptoError.self) { try SigningKey(seed: [UInt8](repeating: 0, count: count)) }
      #expect(!SigningKey.verify(try key.sign([]), of: [], publicKey: [UInt8](repeating: 0, count: count)))
    }
    for count in [0, 63, 65] {
      #expect(!SigningKey.verify([UInt8](repeating: 0, count: count), of: [], publicKey: key.publicKey))
    }
  }
}

@Suite("Hashes and random values")
struct RandomTests {
  @Test("SHA-256 of nothing and of abc are the standard's")
  func hash() {
    #expect(hexadecimal(sha256([])) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
    #expect(
      hexadecimal(sha256(Array("abc".utf8))) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
  }

  @Test("a UUID is of version 4, in small letters, and never the same")
  func uuid() throws {
    let uuids = (0..<100).map { _ in Random.uuid() }
    #expect(Set(uuids).count == 100)
    for uuid in uuids {
      #expect(uuid.wholeMatch(of: #/[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}/#) != nil)
    }
  }

  @Test("a token has 43 characters of base64url")
  func token() {
    let token = Random.token()
    #expect(token.count == 43 && Base64.decode(token)?.count == 32 && token != Random.token())
  }

  @Test("as many random bytes come as are asked for, none included")
  func bytes() {
    #expect(Random.bytes(0) == [] && Random.bytes(100).count == 100)
  }
}

@Suite("Base64")
struct Base64Tests {
  @Test(
    "RFC 4648's vectors go both ways",
    arguments: [
      ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="),
      ("foobar", "Zm9vYmFy"),
    ])
  func vectors(text: String, encoded: String) {
    #expect(Base64.encode(Array(text.utf8)) == encoded)
    #expect(Base64.encodeURL(Array(text.utf8)) == encoded.filter { $0 != "=" })
    #expect(Base64.decode(encoded) == Array(text.utf8))
    #expect(Base64.decode(encoded.filter { $0 != "=" }) == Array(text.utf8))
  }

  @Test("both alphabets are read, and only the right one is written")
  func alphabets() {
    let bytes: [UInt8] = [0xFB, 0xEF, 0xFF]
    #expect(Base64.encode(bytes) == "++//" && Base64.encodeURL(bytes) == "--__")
    #expect(Base64.decode("++//") == bytes && Base64.decode("--__") == bytes)
  }

  @Test("bytes of every length come back")
  func roundTrip() {
    for count in 0...100 {
      let bytes = Random.bytes(count)
      #expect(Base64.decode(Base64.encode(bytes)) == bytes)
      #expect(Base64.decode(Base64.encodeURL(bytes)) == bytes)
    }
  }

  @Test(
    "what is no base64 is refused",
    arguments: [
      "Z", "Zm9vY", "Zg=", "Zg===", "Zm8==", "Zm9v=", "=", "==", "Zg==Zg==", "Z g=", "Zg\n", "Zm9v!", "Zmä=",
      "Zm9v====",
    ])
  func strict(text: String) {
    #expect(Base64.decode(text) == nil)
  }

  @Test(
    "bits that no encoder leaves behind are refused: one value has one spelling",
    arguments: ["Zh==", "Zh", "Zm9=", "Zm9"])
  func canonical(text: String) {
    #expect(Base64.decode(text) == nil)
  }
}
