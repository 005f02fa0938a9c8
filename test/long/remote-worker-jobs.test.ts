import { workThroughServers } from '../support/through-server.ts'

// What jobs may hold, when and in what order they run, through a server.
workThroughServers()

await import('../behaviour/approval.test.ts')
await import('../behaviour/keys.test.ts')
await import('../behaviour/priority-and-order.test.ts')
await import('../behaviour/rerun-and-delete.test.ts')
await import('../behaviour/run-at.test.ts')
await import('../behaviour/unstorable-values.test.ts')
await import('../behaviour/workflow-cancel.test.ts')
await import('../behaviour/workflow-one-slot.test.ts')
