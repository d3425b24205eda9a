/// The one table of what the program can be told. Parsing, help, the manual and the shells' completions are made from it.
enum Table {
  static let verbs: [Verb] =
    [
      RunCommand.verb, PairCommand.verb, StatusCommand.verb,
      GatewaysCommand.list, GatewaysCommand.use, GatewaysCommand.forget,
      CameraCommand.list, CameraCommand.snap, CameraCommand.clip,
      InvokeCommand.verb, LocationCommand.verb, ListenCommand.verb, PushToTalkCommand.hush,
      CapabilitiesCommand.list, CapabilitiesCommand.enable, CapabilitiesCommand.disable,
      HealthCommand.verb, IdentityCommand.verb, GatewayConfigCommand.verb, AuditCommand.verb, DoctorCommand.verb,
      ConfigCommand.show, ConfigCommand.sample,
      DemoCommand.verb, DevGatewayCommand.verb, DevRecognizerCommand.verb, CompletionsCommand.verb, ManualCommand.verb,
      VersionCommand.verb, HelpCommand.verb,
    ] + PushToTalkCommand.verbs + [BindCommand.verb] + AudioCommand.verbs
}
