// {%.Name%} offers tools to an agent. Put yours here.
import { serve } from './flynn.mjs'

serve({
  name: '{%.Name%}',
  version: '0.1.0',

  // configure returns what is wrong with the settings: a list of { path, message }.
  configure (given) {
    return Object.keys(given).map(path => ({ path, message: 'unknown key' }))
  },

  tools: [{
    name: 'roll',
    description: 'Rolls dice and tells the sum.',
    schema: {
      type: 'object',
      properties: { dice: { type: 'integer', minimum: 1, maximum: 100 } },
      required: ['dice'],
      additionalProperties: false,
    },
    effect: 1, // reads: changes nothing
    // call returns text for the model. An error that it throws is the result of a call that failed.
    call ({ dice }) {
      if (!(dice >= 1 && dice <= 100)) throw new Error('dice: want 1 to 100')
      let sum = 0
      for (let i = 0; i < dice; i++) sum += 1 + Math.floor(6 * Math.random())
      return sum
    },
  }],
})
