import type { Declare } from '../command.ts'
import { EXIT } from '../exit-code.ts'
export const declareDoctor: Declare = (command, act) => {
  command.action(() => act(async () => EXIT.done))
}
