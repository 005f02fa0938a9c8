import { workThroughServers } from '../support/through-server.ts'

// Jobs that a worker is assigned beyond its slots: the tests of direct workers, through a server.
workThroughServers()

await import('../behaviour/prefetch.test.ts')
