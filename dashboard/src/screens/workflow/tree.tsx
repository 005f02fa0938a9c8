import { useQueries } from '@tanstack/react-query'
import { type KeyboardEvent, useRef, useState } from 'react'
import type { Tree } from '../../../../src/client/index.ts'
import { client } from '../../connection.ts'
import { To, useGo } from '../../parts/link.tsx'
import { Loading } from '../../parts/notes.tsx'
import { Problem } from '../../parts/problem.tsx'
import { StateBadge } from '../../parts/state-badge.tsx'
import { Took } from '../../parts/time.tsx'
import { ShareBar } from './share-bar.tsx'
import { type TreeRow, treeRows } from './tree-rows.ts'
import { treeKey } from './use-workflow.ts'

/**
 * What is below a job, level by level: each is asked for when it is opened, so a tree of any size costs what is shown of it.
 *
 * Arrow keys up and down move, right and left open and close, Enter goes there.
 */
export function TreeView({ id }: { id: string }) {
  const [opened, setOpened] = useState<ReadonlyMap<string, boolean>>(new Map([[id, true]]))
  const wanted = [...opened].filter(([, open]) => open).map(([each]) => each)
  const { loaded, error } = useQueries({
    queries: wanted.map((each) => ({
      queryKey: treeKey(id, 'tree', each),
      queryFn: () => client.tree(each, { depth: 1 }),
    })),
    combine: (results) => ({
      loaded: new Map(results.flatMap(({ data }) => (data === undefined ? [] : [[data.id, data] as const]))),
      error: results.find((each) => each.error !== null)?.error,
    }),
  })
  const top = loaded.get(id)
  if (top === undefined) return error === undefined ? <Loading lines={6} /> : <Problem error={error} />
  const toggle = (node: Tree, open: boolean) => setOpened(new Map([...opened, [node.id, open]]))
  return (
    <>
      <Problem error={error} />
      <Rows rows={treeRows(top, loaded, opened)} onToggle={toggle} />
    </>
  )
}

function Rows({
  rows,
  onToggle,
}: {
  rows: readonly TreeRow[]
  onToggle: (node: Tree, open: boolean) => void
}) {
  const [current, setCurrent] = useState<string>()
  const box = useRef<HTMLDivElement>(null)
  const go = useGo()
  const nodes = rows.filter((row) => row.node !== undefined || row.step !== undefined)
  const at = Math.max(
    0,
    nodes.findIndex(({ key }) => key === current),
  )
  const moveTo = (row: TreeRow | undefined) => {
    if (row === undefined) return
    setCurrent(row.key)
    box.current?.querySelector<HTMLElement>(`[data-key="${CSS.escape(row.key)}"]`)?.focus()
  }
  const pressed = (event: KeyboardEvent) => {
    const row = nodes[at]
    const node = row?.node
    if (row === undefined) return
    if (event.key === 'ArrowDown') moveTo(nodes[at + 1])
    else if (event.key === 'ArrowUp') moveTo(nodes[at - 1])
    else if (event.key === 'ArrowRight' && node !== undefined && row.open === false) onToggle(node, true)
    else if (event.key === 'ArrowRight' && row.open === true) moveTo(nodes[at + 1])
    else if (event.key === 'ArrowLeft' && node !== undefined && row.open === true && row.level > 0)
      onToggle(node, false)
    else if (event.key === 'ArrowLeft') moveTo(nodes.find(({ key }) => key === row.parent))
    else if (event.key === 'Enter' && node !== undefined) go(pathOf(node))
    else return
    event.preventDefault()
  }
  return (
    <div className="tree" role="tree" aria-label="Jobs of this workflow" ref={box} onKeyDown={pressed}>
      {rows.map((row) => {
        const own = { current: nodes[at] === row, onFocus: () => setCurrent(row.key) }
        if (row.node !== undefined)
          return <NodeRow key={row.key} row={row} node={row.node} onToggle={onToggle} {...own} />
        if (row.step !== undefined) return <StepRow key={row.key} row={row} step={row.step} {...own} />
        return (
          <p
            key={row.key}
            className="tree-more soft in-text"
            style={{ paddingLeft: indent(row.level) }}
            data-loading={row.hidden === undefined ? '' : undefined}
          >
            {row.hidden === undefined ? 'Loading…' : <Hidden row={row} />}
          </p>
        )
      })}
    </div>
  )
}

function Hidden({ row: { hidden, parent } }: { row: TreeRow }) {
  return (
    <>
      {hidden?.toLocaleString()} more: <To path={`/workflows/${parent}`}>show all</To>
    </>
  )
}

/** What the run has not come to: there is nothing to open. */
function StepRow({
  row,
  step,
  current,
  onFocus,
}: {
  row: TreeRow
  step: NonNullable<TreeRow['step']>
  current: boolean
  onFocus: () => void
}) {
  return (
    <div
      className="tree-row"
      role="treeitem"
      aria-level={row.level + 1}
      aria-selected={current}
      tabIndex={current ? 0 : -1}
      data-key={row.key}
      onFocus={onFocus}
    >
      <span className="tree-name" style={{ paddingLeft: indent(row.level) }}>
        <span className="tree-toggle" />
        <StateBadge state="not_reached" quiet />
        <span className="tree-link soft">{row.name}</span>
        <span className="tree-task soft">
          {step.kind === 'fanout' ? 'fan-out' : (step.runs ?? step.kind)}
        </span>
      </span>
      <span className="tree-state" />
      <span className="tree-time">not reached</span>
    </div>
  )
}

function NodeRow({
  row,
  node,
  current,
  onToggle,
  onFocus,
}: {
  row: TreeRow
  node: Tree
  current: boolean
  onToggle: (node: Tree, open: boolean) => void
  onFocus: () => void
}) {
  const { startedAt, finishedAt, counts } = node
  return (
    <div
      className="tree-row"
      role="treeitem"
      aria-level={row.level + 1}
      aria-expanded={row.open}
      aria-selected={current}
      tabIndex={current ? 0 : -1}
      data-key={row.key}
      onFocus={onFocus}
    >
      <span className="tree-name" style={{ paddingLeft: indent(row.level) }}>
        {row.open === undefined ? (
          <span className="tree-toggle" />
        ) : (
          <button
            type="button"
            className="tree-toggle"
            tabIndex={-1}
            aria-hidden="true"
            onClick={() => onToggle(node, row.open !== true)}
          >
            {row.open ? '▾' : '▸'}
          </button>
        )}
        <StateBadge state={node.status} quiet />
        <To path={pathOf(node)} className="tree-link">
          {row.name}
        </To>
        <span className="tree-task soft">
          {node.kind === null || row.level === 0 ? node.task : kindWord(node)}
        </span>
      </span>
      <span className="tree-state">
        {counts === undefined ? (
          node.error !== null && (
            <span className="tree-error" data-failed={node.status === 'failed' || undefined}>
              {node.error}
            </span>
          )
        ) : (
          <span className="tree-counts">
            <ShareBar counts={counts} />
            <span>
              {counts.completed.toLocaleString()} of {counts.total.toLocaleString()}
              {counts.failed > 0 && `, ${counts.failed.toLocaleString()} failed`}
            </span>
          </span>
        )}
      </span>
      <span className="tree-time">
        {startedAt !== null && <Took startedAt={startedAt} finishedAt={finishedAt} />}
      </span>
    </div>
  )
}

function kindWord({ kind, task }: Tree): string {
  return kind === 'fanout' ? 'fan-out' : kind === 'group' ? 'group' : task
}

function pathOf({ id, kind }: Tree): string {
  return kind === null ? `/jobs/${id}` : `/workflows/${id}`
}

function indent(level: number): string {
  return `${level * 18}px`
}
