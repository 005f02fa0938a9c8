import { type Static, Type } from 'typebox'
import { Name, TextOrNull } from './scalars.ts'

export const TaskList = Type.Object({
  tasks: Type.Array(
    Type.Object({
      name: Name,
      kind: Type.Unsafe<'task' | 'workflow'>({ type: 'string', enum: ['task', 'workflow'] }),
      lane: Type.Unsafe<string | null>({ ...TextOrNull, description: 'null for a workflow' }),
      moved: Type.Boolean({ description: 'An operator moved it to its lane' }),
    }),
  ),
})
export type TaskList = Static<typeof TaskList>
