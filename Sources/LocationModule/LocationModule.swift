import NodeKit
