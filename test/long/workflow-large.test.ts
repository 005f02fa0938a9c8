// The tests of CI at full size: a tree of depth 10 with 10,000 leaves, and random workflows by the thousand.
process.env.SLUICE_LEAVES ??= '10000'
process.env.SLUICE_REAL_RUNS ??= '1000'
await import('../behaviour/workflow-one-slot.test.ts')
await import('../behaviour/workflow-model.test.ts')
