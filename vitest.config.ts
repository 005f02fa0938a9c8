import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { TimeReporter } from './test/support/time-reporter.ts'

/** Small files that run for a minute: begun last, they would run alone. */
const LONGEST = ['statement-faults', 'browser/operate', 'chaos']

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const isLong = ({ moduleId }: TestSpecification) => LONGEST.some((name) => moduleId.includes(`/${name}.`))
    const sorted = await super.sort(files)
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))]
  }
}

export default defineConfig({
  test: {
    include: ['src/**/*.test.ts', 'dashboard/src/**/*.test.ts', 'bench/*/*.test.ts', 'test/**/*.test.ts'],
    exclude: ['test/long/**', '**/node_modules/**', 'dist/**'],
    globalSetup: ['test/support/global-setup.ts'],
    // Far above what any test needs: it stops one that hangs, and the waits inside of tests say first what they waited for.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    pool: 'forks',
    // Files of one process share what is loaded: loading it for each took a fifth of the time of the suite.
    isolate: false,
    sequence: { sequencer: LongestFirst },
    maxWorkers: 3,
    reporters: ['default', new TimeReporter()],
    coverage: {
      provider: 'v8',
      include: ['src/**/*.ts'],
      exclude: ['**/*.test.ts'],
      reporter: ['text-summary', 'html', 'json-summary'],
      reportOnFailure: true,
    },
  },
})
