import TestSupport
import Testing

// The guest has two processors, and two tests run at a time, which in a suite is in the order of the files' names: the sound card's runs beside
// those that mostly wait.

/// The sound card's, which can't wait, then the keys' and what needs the processor.
@Suite(.inGuest, .serialized, .timeLimit(.minutes(2)))
enum FirstLane {}

/// What waits for cameras, and then what needs the processor.
@Suite(.inGuest, .serialized, .timeLimit(.minutes(2)))
enum SecondLane {}

extension Trait where Self == ConditionTrait {
  static var inGuest: Self {
    .enabled(if: Guest.isHere, "needs cameras, keys and a sound card of the kernel's: make test-vm")
  }
}
