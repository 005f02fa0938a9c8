import type { TreeNode } from '../../engine/views/tree.ts'
import { wholeNumber } from '../arguments.ts'
import type { CommonOptions, Declare, World } from '../command.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { operate } from '../operate.ts'
import { describeCounts, describeTime, markOf, statusText } from '../output/job-line.ts'
import { writeJson } from '../output/json.ts'
import { painter } from '../output/style.ts'
import { cut, printable, widthOf } from '../output/text-width.ts'

interface TreeCommandOptions extends CommonOptions {
  readonly depth?: number
}

/** `sluice tree JOB` */
export const declareTree: Declare = (command, act) => {
  command
    .argument('<job>', 'id of a workflow, or of any job in its tree')
    .option('--depth <number>', 'number of levels below the job (default: all)', wholeNumber)
    .addHelpText('after', '\nOf a wide fan-out, only failures and the first and last children are shown.')
    .action((id: string, options: TreeCommandOptions) => act((world) => tree(world, id, options)))
}

function tree(world: World, id: string, options: TreeCommandOptions): Promise<ExitCode> {
  return operate(world, options, async (system) => {
    const top = await system.tree(id, options.depth === undefined ? {} : { depth: options.depth })
    if (options.json === true) writeJson(world.out, top)
    else writeTree(world, top)
    return EXIT.done
  })
}

interface Line {
  /** What is drawn before it, and before what is below it. */
  readonly branch: string
  readonly stem: string
  readonly node: TreeNode | undefined
  readonly parent: TreeNode | undefined
  readonly hidden: number
}

/** Without recursion: trees may be a thousand levels deep. */
export function writeTree(world: World, top: TreeNode): void {
  const open: Line[] = [{ branch: '', stem: '', node: top, parent: undefined, hidden: 0 }]
  for (let line = open.pop(); line !== undefined; line = open.pop()) {
    const { branch, stem, node, parent, hidden } = line
    if (node === undefined) {
      writeLine(world, branch, '', `${hidden} ${parent?.children.length === 0 ? 'below' : 'more'}`, 'dim')
      continue
    }
    const [mark, colour] = markOf(node.status)
    writeLine(world, branch, mark, nodeLine(node, parent, world.now()), colour)
    const lines = linesBelow(node, stem)
    open.push(...lines.reverse())
  }
}

function linesBelow(parent: TreeNode, stem: string): Line[] {
  const { children, hidden } = parent
  const nodes: (TreeNode | undefined)[] = [...children]
  if (hidden > 0) nodes.push(undefined)
  return nodes.map((node, n) => {
    const isLast = n === nodes.length - 1
    return {
      branch: `${stem}${isLast ? '└─ ' : '├─ '}`,
      stem: `${stem}${isLast ? '   ' : '│  '}`,
      node,
      parent,
      hidden,
    }
  })
}

function writeLine(
  world: World,
  branch: string,
  mark: string,
  text: string,
  colour: Parameters<ReturnType<typeof painter>>[0],
): void {
  const paint = painter(world.out)
  const start = mark === '' ? '' : `${mark} `
  const room = (world.out.columns ?? Number.POSITIVE_INFINITY) - widthOf(branch) - widthOf(start)
  const fitted = cut(printable(text), room)
  const shown = mark === '' ? paint(colour, fitted) : `${paint(colour, mark)} ${fitted}`
  world.out.line(`${paint('dim', branch)}${shown}`)
}

/** `align (job 9) failed, 3.1s, 48 of 50 completed, 2 failed: 2 of 50 children failed; all must complete`. */
function nodeLine(node: TreeNode, parent: TreeNode | undefined, now: Date): string {
  const facts = [
    statusText(node.status),
    describeTime(node, now),
    node.counts === undefined ? undefined : describeCounts(node.counts),
    node.attempts > 1 ? `${node.attempts} attempts` : undefined,
    node.earlierIds.length === 0 ? undefined : `earlier: job ${node.earlierIds.join(', ')}`,
  ]
  const text = facts.filter((fact) => fact !== undefined).join(', ')
  // The error of a cancelled job begins with its status, which is there already.
  const error = node.status === 'cancelled' ? node.error?.replace(/^cancelled: /, '') : node.error
  return `${nameOf(node, parent)} (job ${node.id}) ${text}${error == null ? '' : `: ${error}`}`
}

/** Of an item its place, of a step its name, and what it runs where that is called otherwise. */
function nameOf({ step, index, kind, task }: TreeNode, parent: TreeNode | undefined): string {
  if (parent?.kind === 'fanout') return `[${index}]`
  if (step === null) return task
  return kind !== 'group' && kind !== 'fanout' && task !== step ? `${step}: ${task}` : step
}
