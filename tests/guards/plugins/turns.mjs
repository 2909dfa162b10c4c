// Reads a list of scripts (JSON) and writes, for each, who went on after each move of whoever went on last.
import { readFileSync } from 'node:fs'
import { Turns } from '../../../guards/plugins/recorder/turns.js'

async function play(moves) {
  const turns = new Turns()
  const never = new AbortController().signal
  let current = null
  let count = 0
  const park = (id) => void turns.park(id, never).then(() => { current = id })
  const settle = () => new Promise((resolve) => setImmediate(resolve))
  const seen = []
  turns.created('root', null)
  park('root')
  await settle()
  seen.push(current)
  for (const move of moves) {
    if (current === null) break
    const mover = current
    if (move === 'start') {
      const child = `agent-${++count}`
      turns.created(child, mover)
      turns.started(child)
      park(child)
      await settle()
    } else {
      current = null
      if (move === 'step') park(mover)
      else {
        turns.ended(mover)
        if (mover !== 'root') turns.settled(mover)
      }
      await settle()
    }
    seen.push(current)
  }
  return seen
}

const played = []
for (const moves of JSON.parse(readFileSync(0, 'utf8'))) played.push(await play(moves))
process.stdout.write(JSON.stringify(played))
