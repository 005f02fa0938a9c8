import { standForElection } from './election.ts'
import { Keeper, type KeeperOptions } from './keeper.ts'

// Entry of the keeper process. Whoever loses the election has nothing to do: the winner serves all.
const options = JSON.parse(process.argv[2] ?? '') as KeeperOptions
const elected = await standForElection(options.folders)
if (elected !== undefined) await new Keeper(options, elected).run()
process.exit(0)
