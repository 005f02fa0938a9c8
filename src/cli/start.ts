import { Interrupts } from './interrupts.ts'
import { runProgram } from './program.ts'
import { realWorld } from './world.ts'

// Before any config or task is loaded: stacks of errors then lead to the sources they were compiled from.
process.setSourceMapsEnabled(true)
// The only place that ends the process. A reader that leaves ends it as SIGPIPE would.
const interrupts = new Interrupts((code) => process.exit(code))
interrupts.listen()
const world = realWorld(interrupts, () => process.exit(141))
process.exit(await runProgram(process.argv.slice(2), world))
