import type { CommonOptions, Declare, World } from '../command.ts'
import type { ExitCode } from '../exit-code.ts'
import { jobColumns } from '../output/job-table.ts'
import { writeStatus } from '../output/status-view.ts'
import { painter } from '../output/style.ts'
import { writeTable } from '../output/table.ts'
import { watch } from '../watch.ts'

/** A terminal shows fewer; the rest of the list would be read for nothing. */
const MOST_JOBS = 50

/** `sluice top` */
export const declareTop: Declare = (command, act) => {
  command
    .addHelpText('after', '\nRefreshes every second, until Ctrl-C. The newest running jobs come first.')
    .action((options: CommonOptions) => act((world) => top(world, options)))
}

function top(world: World, options: CommonOptions): Promise<ExitCode> {
  return watch(world, options, 'sluice top', 'sluice status prints the system once', async (out, system) => {
    const snapshot = await system.snapshot()
    const running = await system.listJobs({ status: ['running'], children: true, limit: MOST_JOBS })
    out.line(`${painter(out)('bold', 'sluice top')}  ${system.address}  ${snapshot.at.toISOString()}`)
    out.line()
    writeStatus(out, snapshot)
    if (running.length === 0) return
    out.line()
    writeTable(out, jobColumns(snapshot.at.getTime()), running)
  })
}
