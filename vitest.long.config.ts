import { defineConfig } from 'vitest/config'
import { TimeReporter } from './test/support/time-reporter.ts'

// Runs of minutes: `npm run test:long`. One file at a time, so that they do not take each other's cores.
export default defineConfig({
  test: {
    include: ['test/long/**/*.test.ts'],
    globalSetup: ['test/support/global-setup.ts'],
    testTimeout: 600_000,
    hookTimeout: 60_000,
    pool: 'forks',
    maxWorkers: 1,
    reporters: ['default', new TimeReporter()],
  },
})
