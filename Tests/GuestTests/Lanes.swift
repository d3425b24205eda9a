import TestSupport
import Testing

// The guest has two processors, and two tests run at a time: more would keep the sound card's from their turn.

/// The sound card's, which can't wait, the keys', and then what only waits for cameras.
@Suite(.inGuest, .serialized, .timeLimit(.minutes(2)))
enum FirstLane {}

/// What needs the camera that shows what is written to it, and what needs the processor.
@Suite(.inGuest, .serialized, .timeLimit(.minutes(2)))
enum SecondLane {}

extension Trait where Self == ConditionTrait {
  static var inGuest: Self {
    .enabled(if: Guest.isHere, "needs cameras, keys and a sound card of the kernel's: make test-vm")
  }
}
