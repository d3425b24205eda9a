/// The timers of one event loop: a heap by due time, with cancelled entries left in it until they come up or are too many.
struct TimerQueue {
  private struct Entry {
    let due: UInt64
    let id: UInt64
    /// The earlier first; of two due at once the one that was added first.
    static func < (left: Entry, right: Entry) -> Bool { (left.due, left.id) < (right.due, right.id) }
  }
  private var heap: [Entry] = []
  private var handlers: [UInt64: () -> Void] = [:]

  /// How many timers wait.
  var count: Int { handlers.count }
  /// How many entries the heap holds for them.
  var stored: Int { heap.count }

  /// When the next one is due, in nanoseconds of the monotonic clock.
  var nextDue: UInt64? {
    mutating get {
      while let first = heap.first {
        if handlers[first.id] != nil { return first.due }
        removeFirst()
      }
      return nil
    }
  }

  /// `id` must be new and larger than every one before.
  mutating func add(_ id: UInt64, due: UInt64, _ handler: @escaping () -> Void) {
    handlers[id] = handler
    insert(Entry(due: due, id: id))
  }

  mutating func cancel(_ id: UInt64) {
    if handlers.removeValue(forKey: id) == nil { return }
    // Deadlines are mostly cancelled long before they are due: without this a busy loop would collect them.
    if heap.count > 64 && heap.count > 2 * handlers.count {
      let live = heap.filter { handlers[$0.id] != nil }
      heap.removeAll(keepingCapacity: true)
      for entry in live { insert(entry) }
    }
  }

  /// Takes those due at `now` off the queue, in order. Each then fires if `take` still knows it: one may cancel another.
  mutating func due(at now: UInt64) -> [UInt64] {
    var due: [UInt64] = []
    while let first = heap.first, first.due <= now {
      removeFirst()
      if handlers[first.id] != nil { due.append(first.id) }
    }
    return due
  }

  mutating func take(_ id: UInt64) -> (() -> Void)? { handlers.removeValue(forKey: id) }

  private mutating func insert(_ entry: Entry) {
    heap.append(entry)
    var child = heap.count - 1
    while child > 0 {
      let parent = (child - 1) / 2
      if !(heap[child] < heap[parent]) { return }
      heap.swapAt(child, parent)
      child = parent
    }
  }

  private mutating func removeFirst() {
    heap.swapAt(0, heap.count - 1)
    heap.removeLast()
    var parent = 0
    while true {
      var least = parent
      for child in [2 * parent + 1, 2 * parent + 2] where child < heap.count && heap[child] < heap[least] {
        least = child
      }
      if least == parent { return }
      heap.swapAt(parent, least)
      parent = least
    }
  }
}
