import { useState } from 'react'
import type { LaneOverrides } from '../../../../src/client/index.ts'
import { Button } from '../../parts/controls.tsx'
import { To } from '../../parts/link.tsx'
import { Panel } from '../../parts/panel.tsx'
import { type Column, Table } from '../../parts/table.tsx'
import { Ago } from '../../parts/time.tsx'
import { useSession } from '../../session.tsx'
import { type ShownLane, useLaneQuestion } from './controls.tsx'
import { MoveTask } from './dialogs.tsx'

type Moved = LaneOverrides['moved'][number]

interface ShownTask {
  readonly name: string
  /** Set where an operator moved it here. */
  readonly moved: Moved | undefined
}

/** The tasks of a lane, and those that operators moved there. */
export function TasksOfLane({
  lane,
  others,
  moved,
}: {
  lane: ShownLane
  others: readonly string[]
  moved: readonly Moved[]
}) {
  const { may } = useSession()
  const [moving, setMoving] = useState<string>()
  const rows = lane.tasks.map((name): ShownTask => ({ name, moved: moved.find(({ task }) => task === name) }))
  return (
    <Panel title="Tasks" flush>
      <Table
        label={`Tasks of lane ${lane.name}`}
        columns={columnsFor(may('workers:manage') ? setMoving : undefined)}
        rows={rows}
        rowKey={({ name }) => name}
        empty={<p className="soft lane-no-history">No tasks. Submissions can still name this lane.</p>}
      />
      {moving !== undefined && (
        <MoveTask task={moving} lane={lane} lanes={others} onClose={() => setMoving(undefined)} />
      )}
    </Panel>
  )
}

function columnsFor(onMove: ((task: string) => void) | undefined): readonly Column<ShownTask>[] {
  return [
    {
      id: 'task',
      head: 'Task',
      cell: ({ name }) => (
        <To path="/jobs" search={{ task: name }}>
          {name}
        </To>
      ),
    },
    {
      id: 'moved',
      head: 'Moved',
      has: ({ moved }) => moved !== undefined,
      phone: 'below',
      cell: ({ moved }) =>
        moved !== undefined && (
          <>
            from {moved.declaredLane} <Ago at={moved.at} /> <span className="soft">by {moved.by}</span>
          </>
        ),
    },
    ...(onMove === undefined
      ? []
      : [
          {
            id: 'move',
            head: <span className="hidden-visually">Actions</span>,
            width: '200px',
            phone: '150px',
            align: 'right' as const,
            cell: ({ name, moved }: ShownTask) => (
              <span className="lane-tools lane-task-tools">
                {moved !== undefined && <MoveBack moved={moved} />}
                <Button small aria-label={`Move ${name}…`} onClick={() => onMove(name)}>
                  Move…
                </Button>
              </span>
            ),
          },
        ]),
  ]
}

/** Undoes the move of one task. */
function MoveBack({ moved: { task, declaredLane } }: { moved: Moved }) {
  const ask = useLaneQuestion()
  return (
    <Button
      small
      aria-label={`Move back ${task}…`}
      onClick={() =>
        ask({
          title: `Move ${task} back to ${declaredLane}`,
          effect:
            'Files and programs declare the task in that lane. Waiting jobs follow within seconds; running jobs finish in the old lane.',
          action: 'Move task back',
          run: (voice) => voice.moveTask(task, null),
          done: `Moved ${task} back to lane ${declaredLane}`,
        })
      }
    >
      Move back…
    </Button>
  )
}
