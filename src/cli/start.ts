import { Interrupts } from './interrupts.ts'
import { runProgram } from './program.ts'
import { realWorld } from './world.ts'

// Before any config or task is loaded: stacks of errors then lead to the sources they were compiled from.
process.setSourceMapsEnabled(true)
// The only place that ends the process. A reader that leaves ends it as SIGPIPE would.
const interrupts = new Interrupts((code) => process.exit(code))
interrupts.listen()
const world = realWorld(interrupts, (code) => process.exit(code))
const code = await runProgram(process.argv.slice(2), world)
// A pipe takes 64 KiB at once: what its reader has not taken yet is lost when the process exits.
await Promise.all([process.stdout, process.stderr].map(written))
process.exit(code)

/** Resolves when all that was written to a stream has been passed on, or its reader has left. */
function written(stream: NodeJS.WriteStream): Promise<void> {
  return new Promise((resolve) => stream.write('', () => resolve()))
}
