import type { Tree } from '../../../../src/client/index.ts'

/** A line of a tree: a job; or, without one, what is loading or folded below its parent. */
export interface TreeRow {
  readonly key: string
  readonly parent: string | undefined
  readonly level: number
  readonly name: string
  readonly node?: Tree
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

function hasChildren({ kind, firstChildId, hidden, children }: Tree): boolean {
  return kind !== null && (firstChildId !== null || hidden > 0 || children.length > 0)
}

function nameOf(node: Tree, parent: Tree | undefined): string {
  if (parent?.kind === 'fanout') return `[${node.index}]`
  return node.step ?? node.task
}
