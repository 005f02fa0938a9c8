import { Type } from 'typebox'
import {
  BudgetBody,
  BudgetChangeBody,
  BudgetCreateBody,
  BudgetParams,
  BudgetsBody,
} from '../../api/budgets.ts'
import { changeBudget, createBudget, deleteBudget, resetBudget } from '../../engine/operate/operator-acts.ts'
import { viewBudget, viewBudgets } from '../../engine/views/budget-view.ts'
import { toBudgetBody, toBudgetsBody } from '../bodies/budget-body.ts'
import { changeAsOperator } from '../change.ts'
import type { Server, ServerParts } from '../parts.ts'

/** `/admin/budgets`: the budgets with their use and their waiting jobs, and an operator's changes to them. */
export function budgetRoutes(server: Server, parts: ServerParts): void {
  const { calls } = parts.services
  const tags = ['budgets']

  server.get(
    '/admin/budgets',
    {
      config: { access: 'workers:view' },
      schema: {
        summary: 'Budgets with their devices and the next actions there, models, and waiting jobs',
        tags,
        response: { 200: BudgetsBody },
      },
    },
    async () => toBudgetsBody(await viewBudgets(calls)),
  )

  server.get(
    '/admin/budgets/:name',
    {
      config: { access: 'workers:view' },
      schema: { summary: 'One budget', tags, params: BudgetParams, response: { 200: BudgetBody } },
    },
    async (request) => toBudgetBody(await viewBudget(calls, request.params.name)),
  )

  server.post(
    '/admin/budgets',
    {
      config: { access: 'workers:manage' },
      schema: {
        summary: 'Create a budget for the whole system',
        description:
          'The budget does not have to be declared in a file. Budgets with devices can only be declared in files, because machines offer the devices.',
        tags,
        body: BudgetCreateBody,
        response: { 201: BudgetBody },
      },
    },
    async (request, reply) => {
      const { name, ...given } = request.body
      await changeAsOperator(parts, request, createBudget(name, given))
      reply.code(201)
      return toBudgetBody(await viewBudget(calls, name))
    },
  )

  server.patch(
    '/admin/budgets/:name',
    {
      config: { access: 'workers:manage' },
      schema: {
        summary: 'Change a budget',
        description:
          'The change persists until it is reset, whatever files declare. A reduction stops no running job: new jobs wait until enough has been released.',
        tags,
        params: BudgetParams,
        body: BudgetChangeBody,
        response: { 200: BudgetBody },
      },
    },
    async (request) => {
      const { name } = request.params
      await changeAsOperator(parts, request, changeBudget(name, request.body))
      return toBudgetBody(await viewBudget(calls, name))
    },
  )

  server.post(
    '/admin/budgets/:name/reset',
    {
      config: { access: 'workers:manage' },
      schema: {
        summary: 'Reset a budget to the values that files and code declare',
        tags,
        params: BudgetParams,
        response: { 200: BudgetBody },
      },
    },
    async (request) => {
      const { name } = request.params
      await changeAsOperator(parts, request, resetBudget(name))
      return toBudgetBody(await viewBudget(calls, name))
    },
  )

  server.delete(
    '/admin/budgets/:name',
    {
      config: { access: 'workers:manage' },
      schema: {
        summary: 'Delete a budget that is no longer in the file',
        description:
          'Rejected while a task uses the budget and a live worker runs the task, the last worker of a pool ran it, or it has jobs that have not ended. A budget that a file still declares exists again when the file is next applied.',
        tags,
        params: BudgetParams,
        response: { 204: Type.Null() },
      },
    },
    async (request, reply) => {
      const { name } = request.params
      await changeAsOperator(parts, request, deleteBudget(name))
      return reply.code(204).send(null)
    },
  )
}
