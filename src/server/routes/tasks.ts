import { TaskList } from '../../api/tasks.ts'
import type { Server, ServerParts } from '../parts.ts'

/** `/tasks`: the tasks and workflows that can be submitted. */
export function taskRoutes(server: Server, { app }: ServerParts): void {
  server.get(
    '/tasks',
    {
      config: { access: ['jobs:submit', 'jobs:read'] },
      schema: {
        summary: 'All registered tasks and workflows',
        tags: ['jobs'],
        response: { 200: TaskList },
      },
    },
    async () => ({ tasks: await app.listTasks() }),
  )
}
