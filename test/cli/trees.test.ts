import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Trace, TreeNode } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { until } from '../support/until.ts'
import { stepOf } from '../support/workflows.ts'
import type { Running } from './cli.ts'
import { useWay, WAYS } from './ways.ts'

// `read` fails while there is not a file of the name it is given.
const CONFIG = `
lanes:
  default: { perWorker: null, poll: 100ms }
tasks:
  read:
    exec: [/bin/sh, -c, 'read -r file; file=$(echo "$file" | tr -d "\\042"); test -e "FOLDER/$file" || { echo "there is no $file" >&2; exit 1; }']
    retry: { attempts: 1 }
workflows:
  collect:
    steps:
      all:
        task: read
        with_items: \${{ input.files }}
        concurrency: 2
        with: \${{ item }}
      report: { task: read, needs: [all], with: done }
`

describe.each(WAYS)('over %s', (way) => {
  const database = useDatabase()
  const { cli, direct } = useWay(way, database)

  let worker: Running

  beforeAll(async () => {
    await cli.write('sluice.yaml', CONFIG.replaceAll('FOLDER', cli.folder))
    for (const name of ['done', 'a', 'b']) await cli.write(name, '')
    worker = direct.start(['worker', '--capacity', '4'])
    await worker.says('ready to take jobs')
  })

  afterAll(async () => {
    expect(await worker.end('SIGTERM')).toBe(0)
  })

  async function collect(...files: string[]): Promise<string> {
    const { stdout } = await cli.run([
      'submit',
      'collect',
      '--input',
      JSON.stringify({ files }),
      '--wait',
      '--json',
    ])
    return (JSON.parse(stdout) as { id: string }).id
  }

  async function lines(...args: string[]): Promise<string[]> {
    const { code, stdout, stderr } = await cli.run(args)
    expect([code, stderr]).toEqual([0, ''])
    return stdout
      .replace(/\(job \d+\)/g, '(job N)')
      .replace(/\bjob \d+\b/g, 'job N')
      .replace(/\b[\d.]+m?s\b/g, 'TIME')
      .split('\n')
  }

  describe('tree, trace and retry', () => {
    test('show a failure, what led to it, and make it good', async () => {
      const id = await collect('a', 'missing', 'b')
      expect(await lines('tree', id)).toEqual([
        '✗ collect (job N) failed, TIME: step all failed: 1 of 3 children failed; all must complete',
        '├─ ✗ all (job N) failed, TIME, 2 of 3 completed, 1 failed; 2 at once: 1 of 3 children failed; all must complete',
        '│  ├─ ✓ [0] (job N) completed, TIME',
        '│  ├─ ✗ [1] (job N) failed, TIME: exited with code 1: there is no missing',
        '│  └─ ✓ [2] (job N) completed, TIME',
        '└─ – report: read (job N) skipped: all failed',
        '',
      ])
      expect(await lines('trace', id)).toContain(
        '  compared  the input differs from that of item [0], job N, which completed:',
      )
      const trace = await cli.json<Trace>('trace', id)
      expect(trace.suspect).toBe(trace.failure)

      await cli.write('missing', '')
      const { stdout } = await cli.run(['retry', id, '--failed'])
      expect(stdout).toBe(`job ${id}: runs again: 1 job queued again, 1 step to be decided again\n`)
      await until(async () => (await cli.json<TreeNode>('tree', id)).status === 'completed', 'it to complete')
      const tree = await cli.json<TreeNode>('tree', id)
      expect(stepOf(tree, 'report')).toMatchObject({ status: 'completed', earlierIds: [expect.any(String)] })

      const again = await cli.json<object[]>('retry', id, '--from', 'report', '--input', '"a"')
      expect(again).toEqual([{ id, root: id, jobs: 0, superseded: 1, status: 'running' }])
      await until(async () => (await cli.json<TreeNode>('tree', id)).status === 'completed', 'it to complete')
    })

    test('refuse what makes no sense, with the reason', async () => {
      const id = await collect('a')
      const refused = async (...args: string[]) => {
        const { code, stderr } = await cli.run(args)
        return `${code}: ${stderr.split('\n')[0]}`
      }
      expect(await refused('trace', id)).toMatch(/^1: .*nothing in it has failed/)
      expect(await refused('retry', id, '--failed')).toMatch(/^1: .*it is completed/)
      expect(await refused('retry', id)).toMatch(/^2: .*is a workflow: .*--failed.*--from STEP/)
      expect(await refused('retry', id, '--failed', '--from', 'report')).toMatch(/^2: .*--failed and --from/)
      expect(await refused('retry', id, '--input', '1')).toMatch(/^2: .*name it with --from STEP/)
      expect(await refused('retry', id, '--from', 'rapport')).toMatch(/^2: .*did you mean report\?/)
      expect(await refused('tree', '99999')).toMatch(/^1: .*job 99999 does not exist/)
      expect(await refused('tree', id, '--depth', 'x')).toMatch(/^2: .*whole number/)
    })
  })
})
