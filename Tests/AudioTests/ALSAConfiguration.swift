import Glibc
import System
import TestSupport

/// ALSA's own configuration with devices for these tests. The system's file comes first in the list, or the plug-ins are unknown.
/// Set before the first sound library is used: a library that reads the environment meanwhile would read freed memory.
enum ALSAConfiguration {
  private static let folder = TemporaryFolder()

  static let isSet: Bool = {
    let text = """
      pcm.at_server {
        @args [ SERVER DEVICE ]
        @args.SERVER { type string }
        @args.DEVICE { type string }
        type pulse
        server $SERVER
        device $DEVICE
      }
      pcm.only44 {
        @args [ SERVER DEVICE ]
        @args.SERVER { type string }
        @args.DEVICE { type string }
        type plug
        slave {
          pcm { type pulse server $SERVER device $DEVICE }
          rate 44100
          channels 2
          format S16_LE
        }
      }
      pcm.to_file {
        @args [ PATH ]
        @args.PATH { type string }
        type file
        file $PATH
        format "raw"
        slave.pcm "null"
      }
      pcm.from_file {
        @args [ PATH ]
        @args.PATH { type string }
        type file
        file "/dev/null"
        infile $PATH
        format "raw"
        slave.pcm "null"
      }
      """
    try? Files.writeAtomically(Array(text.utf8), to: folder("asound.conf"))
    setenv("ALSA_CONFIG_PATH", "/usr/share/alsa/alsa.conf:" + folder("asound.conf"), 1)
    atexit { try? Files.removeTree(folder.path) }
    return true
  }()
}
