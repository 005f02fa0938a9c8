import { workThroughServers } from '../support/through-server.ts'

// What is promised of workers does not depend on how they get their jobs: the tests of direct workers, through a server.
workThroughServers()

await import('../behaviour/retry.test.ts')
await import('../behaviour/timeout.test.ts')
await import('../behaviour/cancel.test.ts')
await import('../behaviour/capacity.test.ts')
await import('../behaviour/logs-and-progress.test.ts')
await import('../behaviour/steps-and-checkpoints.test.ts')
await import('../behaviour/idle-workers.test.ts')
await import('../behaviour/lane-polls.test.ts')
await import('../behaviour/second-outcome.test.ts')
