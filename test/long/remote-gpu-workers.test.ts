import { workThroughServers } from '../support/through-server.ts'

// Devices, models and running out of memory: the tests of direct workers, through a server.
workThroughServers()

await import('../behaviour/gpu-workers.test.ts')
