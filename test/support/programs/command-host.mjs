// Runs command lines one after another, each as if in a process of its own, and tells its parent what they wrote. The
// start of a process takes longer than most commands do. It ends with its parent.
import { Interrupts } from '../../../dist/cli/interrupts.js'
import { runProgram } from '../../../dist/cli/program.js'
import { realWorld } from '../../../dist/cli/world.js'

process.on('disconnect', () => process.exit())
process.argv[1] = process.argv[2]
process.stdout.setMaxListeners(0)
process.stderr.setMaxListeners(0)

let written = { stdout: '', stderr: '' }
for (const name of ['stdout', 'stderr'])
  process[name].write = (text) => {
    written[name] += text
    return true
  }

process.on('message', async ({ args, environment, folder, input }) => {
  for (const name of Object.keys(process.env)) if (!(name in environment)) delete process.env[name]
  Object.assign(process.env, environment)
  process.chdir(folder)
  written = { stdout: '', stderr: '' }
  const world = realWorld(new Interrupts(() => {}), () => {})
  const code = await runProgram(args, { ...world, readInput: async () => input })
  process.send({ code, ...written })
})
