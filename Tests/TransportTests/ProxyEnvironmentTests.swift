import Testing

@testable import Transport

@Suite("The proxy that the environment names")
struct ProxyEnvironmentTests {
  let secure = Endpoint(isTLS: true, host: "gw.example.com", port: 443)
  let plain = Endpoint(isTLS: false, host: "gw.example.com", port: 18_789)

  @Test("each scheme has its own variable, and all_proxy is for the rest")
  func schemes() {
    let environment = ["https_proxy": "http://s:1", "http_proxy": "http://p:2", "ALL_PROXY": "http://a:3"]
    #expect(Proxy.fromEnvironment(environment, for: secure)?.endpoint.authority == "s:1")
    #expect(Proxy.fromEnvironment(environment, for: plain)?.endpoint.authority == "p:2")
    #expect(Proxy.fromEnvironment(["ALL_PROXY": "http://a:3"], for: secure)?.endpoint.authority == "a:3")
    #expect(Proxy.fromEnvironment([:], for: secure) == nil)
    #expect(Proxy.fromEnvironment(["https_proxy": " "], for: secure) == nil)
  }

  @Test("capitals count, except for HTTP_PROXY, which a web server sets from a request")
  func capitals() {
    #expect(Proxy.fromEnvironment(["HTTPS_PROXY": "http://s:1"], for: secure) != nil)
    #expect(Proxy.fromEnvironment(["HTTP_PROXY": "http://p:2"], for: plain) == nil)
  }

  @Test(
    "a proxy is a URL or host and port, with or without credentials",
    arguments: [
      ("proxy", "ws://proxy:80", nil), ("proxy:3128", "ws://proxy:3128", nil),
      ("http://proxy:3128/", "ws://proxy:3128", nil),
      ("https://proxy", "wss://proxy:443", nil), ("http://u:p%40ss@proxy:8", "ws://proxy:8", "u:p@ss"),
      ("u@proxy:8", "ws://proxy:8", "u:"), ("http://[::1]:8", "ws://[::1]:8", nil),
    ] as [(String, String, String?)])
  func forms(text: String, endpoint: String, credentials: String?) {
    let proxy = Proxy(url: text)
    #expect(proxy?.endpoint.description == endpoint && proxy?.credentials == credentials)
  }

  @Test(
    "other kinds of proxy and half URLs are none",
    arguments: ["socks5://a:1", "http://", "http://a:x", "http://%zz@a", "//a"])
  func refused(text: String) {
    #expect(Proxy(url: text) == nil)
    #expect(Proxy.fromEnvironment(["https_proxy": text], for: secure) == nil)
  }

  @Test(
    "this machine is never asked for through a proxy",
    arguments: ["localhost", "a.localhost", "127.0.0.1", "127.1.2.3", "::1"])
  func loopback(host: String) {
    let endpoint = Endpoint(isTLS: false, host: host, port: 18_789)
    #expect(Proxy.fromEnvironment(["http_proxy": "http://p:2"], for: endpoint) == nil)
  }

  @Test(
    "no_proxy excepts hosts, domains, addresses and ranges",
    arguments: [
      ("gw.example.com", "gw.example.com", true), ("example.com", "gw.example.com", true),
      (".example.com", "gw.example.com", true), ("*.example.com", "gw.example.com", true),
      ("*", "gw.example.com", true),
      ("EXAMPLE.COM", "gw.example.com", true), ("a.b, example.com", "gw.example.com", true),
      ("a.b example.com", "gw.example.com", true),
      ("ample.com", "gw.example.com", false), ("gw.example.com.evil", "gw.example.com", false),
      ("", "gw.example.com", false),
      ("example.com:443", "gw.example.com", true), ("example.com:8443", "gw.example.com", false),
      ("10.0.0.0/8", "10.1.2.3", true), ("10.0.0.0/8", "11.1.2.3", false), ("10.0.0.0/33", "10.1.2.3", false),
      ("10.0.0.0/0", "11.1.2.3", true), ("192.168.7.20", "192.168.7.20", true), ("192.168.7.2", "192.168.7.20", false),
      ("fd00::/8", "fd00::1", true), ("[fd00::1]", "fd00::1", true), ("fd00:0::1", "fd00::1", true),
      ("10.0.0.0/8", "fd00::1", false),
      ("10.0.0.0/8", "gw.example.com", false), ("10.0.0.0/x", "10.1.2.3", false),
    ])
  func exceptions(list: String, host: String, isExcepted: Bool) {
    let endpoint = Endpoint(isTLS: true, host: host, port: 443)
    let environment = ["https_proxy": "http://p:1", "no_proxy": list]
    #expect((Proxy.fromEnvironment(environment, for: endpoint) == nil) == isExcepted)
  }
}
