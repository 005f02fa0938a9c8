import type { Tree } from '../../../../src/client/index.ts'

/** A line of a tree: a job, or a step that is still to come; or, without either, what is loading or folded below its parent. */
export interface TreeRow {
  readonly key: string
  readonly parent: string | undefined
  readonly level: number
  readonly name: string
  readonly node?: Tree
  /** A step that the run has not come to. */
  readonly step?: NonNullable<Tree['notReached']>['steps'][number]
  /** `undefined`: there is nothing to open. */
  readonly open?: boolean
  /** Children that are not among the rows. */
  readonly hidden?: number
}

/** What is open is shown as far as it is loaded. */
export function treeRows(
  top: Tree,
  loaded: ReadonlyMap<string, Tree>,
  opened: ReadonlyMap<string, boolean>,
): TreeRow[] {
  const rows: TreeRow[] = []
  const add = (node: Tree, parent: Tree | undefined, level: number): void => {
    const open = hasChildren(node) ? (opened.get(node.id) ?? false) : undefined
    rows.push({
      key: node.id,
      parent: parent?.id,
      level,
      name: nameOf(node, parent),
      node,
      ...(open !== undefined && { open }),
    })
    if (open !== true) return
    const below = loaded.get(node.id)
    if (below === undefined) {
      rows.push({ key: `${node.id}/loading`, parent: node.id, level: level + 1, name: '' })
      return
    }
    for (const child of below.children) add(child, node, level + 1)
    addNotReached(below, level + 1, rows)
    if (below.hidden > 0)
      rows.push({
        key: `${node.id}/more`,
        parent: node.id,
        level: level + 1,
        name: '',
        hidden: below.hidden,
      })
  }
  add(top, undefined, 0)
  return rows
}

/** What is still to come stands below what there is. */
function addNotReached({ id, notReached }: Tree, level: number, rows: TreeRow[]): void {
  if (notReached === undefined) return
  const { total, steps } = notReached
  for (const step of steps) rows.push({ key: `${id}/${step.step}`, parent: id, level, name: step.step, step })
  const more = total - steps.length
  if (more > 0) rows.push({ key: `${id}//`, parent: id, level, name: '', hidden: more })
}

function hasChildren({ kind, firstChildId, hidden, children, notReached }: Tree): boolean {
  return (
    kind !== null && (firstChildId !== null || hidden > 0 || children.length > 0 || notReached !== undefined)
  )
}

function nameOf(node: Tree, parent: Tree | undefined): string {
  if (parent?.kind === 'fanout') return `[${node.index}]`
  return node.step ?? node.task
}
