import System
import Testing

@Suite struct NearestTests {
  @Test(
    "a slip of the keyboard finds the word that was meant",
    arguments: [
      ("statsu", "status"), ("Status", "status"), ("doktor", "doctor"), ("gateway_config", "gateway-config"),
      ("gatewyas", "gateways"), ("statu", "status"), ("rum", "run"),
    ])
  func slips(typed: String, meant: String) {
    #expect(nearest(to: typed, among: ["run", "status", "doctor", "gateways", "gateway-config", "demo"]) == meant)
  }

  @Test(
    "a word that is like none finds none", arguments: ["", "frobnicate", "xyz", String(repeating: "a", count: 1000)])
  func strangers(typed: String) { #expect(nearest(to: typed, among: ["run", "status", "doctor"]) == nil) }
}
