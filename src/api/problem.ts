import { type Static, Type } from 'typebox'

/** The body of every error response: RFC 9457, with a stable code. */
export const Problem = Type.Object(
  {
    type: Type.String({ description: 'Always "about:blank": the code identifies the kind of problem' }),
    title: Type.String({ description: 'The name of the HTTP status' }),
    status: Type.Integer(),
    detail: Type.String({ description: 'For people: what was found, where, and what would be correct' }),
    code: Type.String({
      description: 'For programs: its meaning never changes',
      examples: ['JOB_NOT_FOUND'],
    }),
    requestId: Type.String({ description: "The same as in the server's log and in the audit log" }),
  },
  {
    additionalProperties: true,
    description: 'Further members are facts about the problem: ids, states, limits',
  },
)

export type Problem = Static<typeof Problem>

export const PROBLEM_TYPE = 'application/problem+json'
