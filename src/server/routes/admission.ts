import { AdmissionBody, AdmissionChangeBody } from '../../api/admission.ts'
import { getAdmission, settleAdmission } from '../../engine/operate/admission.ts'
import { changeAdmission, resetAdmission } from '../../engine/operate/operator-acts.ts'
import type { Admission } from '../../store/read-admission.ts'
import { changeAsOperator } from '../change.ts'
import type { Server, ServerParts } from '../parts.ts'

/** `/admin/admission`: how much may enter, and how far that is used. */
export function admissionRoutes(server: Server, parts: ServerParts): void {
  const { calls, gate } = parts.services
  const tags = ['admission']

  server.get(
    '/admin/admission',
    {
      config: { access: 'workers:view' },
      schema: { summary: 'How much may enter', tags, response: { 200: AdmissionBody } },
    },
    async () => toBody(await getAdmission(calls)),
  )

  server.patch(
    '/admin/admission',
    {
      config: { access: 'workers:manage' },
      schema: {
        summary: 'Change how much may enter',
        description:
          'Stays until it is reset, whatever files say. Holds for submissions that begin afterwards; nothing is stopped.',
        tags,
        body: AdmissionChangeBody,
        response: { 200: AdmissionBody },
      },
    },
    async (request) => {
      await changeAsOperator(parts, request, changeAdmission(request.body))
      return settled()
    },
  )

  server.post(
    '/admin/admission/reset',
    {
      config: { access: 'workers:manage' },
      schema: {
        summary: 'Forget what operators changed: the limits are again as files and programs last said',
        tags,
        response: { 200: AdmissionBody },
      },
    },
    async (request) => {
      await changeAsOperator(parts, request, resetAdmission())
      return settled()
    },
  )

  async function settled(): Promise<AdmissionBody> {
    await settleAdmission(calls)
    gate.forget()
    return toBody(await getAdmission(calls))
  }
}

function toBody({ operatorSet, defaultSet, ...rest }: Admission): AdmissionBody {
  return { ...rest, operatorSet: [...operatorSet], defaultSet: [...defaultSet] }
}
