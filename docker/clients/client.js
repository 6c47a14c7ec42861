// Sends a prompt to millrace and prints the answer while it is computed. Ctrl-C cancels the request.
// node client.js [--brokers HOST:PORT] [--cancel-after TOKENS] [--reply-topic TOPIC] PROMPT
import { randomUUID } from 'node:crypto';
import { parseArgs } from 'node:util';
import { Kafka, Partitioners, logLevel } from 'kafkajs';

const { values: options, positionals: [prompt] } = parseArgs({
  allowPositionals: true,
  options: {
    'brokers': { type: 'string', default: '127.0.0.1:9092' },
    'cancel-after': { type: 'string', default: '0' },
    'reply-topic': { type: 'string' },
  },
});
const id = randomUUID();
const endTopic = options['reply-topic'] ?? 'millrace.results';
const kafka = new Kafka({ brokers: options.brokers.split(','), logLevel: logLevel.ERROR });
const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner, idempotent: true });
const consumer = kafka.consumer({ groupId: `client-${id}`, allowAutoTopicCreation: false });
const admin = kafka.admin();
const send = (topic, value, headers) => producer.send({ topic, messages: [{ key: id, value, headers }] });
let attempt = 0, before = [''], shown = '', result, finish; // before: the text before each token
const answered = new Promise((resolve) => { finish = resolve; });
const cancelAfter = Number(options['cancel-after']);
const cancel = () => send('millrace.cancel', 'cancel');

async function read(topic, value) {
  let text = value.text; // the text of a result is the whole answer
  if (topic === endTopic) finish(result = value);
  else if (value.attempt >= attempt && value.index in before) {
    attempt = value.attempt; // higher: a new worker, which starts over or continues at index
    text = before[value.index] + text;
    const end = value.index + value.token_ids.length;
    for (let i = value.index; i < end; i++) before[i + 1] = text;
    if (value.index < cancelAfter && cancelAfter <= end) await cancel();
  } else return; // a record of a worker that was replaced
  if (result || !shown.startsWith(text)) { // a text that differs from what was shown goes to a new line
    process.stdout.write(text.startsWith(shown) ? text.slice(shown.length) : `\n${text}`);
    shown = text;
  }
}

// Start at the ends of the topics as they are before the request is sent, so that no record of the answer is missed.
const topics = ['millrace.tokens', endTopic];
await Promise.all([admin, consumer, producer].map((client) => client.connect()));
const ends = await Promise.all(topics.map((topic) => admin.fetchTopicOffsets(topic)));
consumer.on(consumer.events.CRASH, ({ payload }) => payload.restart || process.exit(1));
await consumer.subscribe({ topics });
await consumer.run({ eachMessage: async ({ topic, message }) => {
  if (!result && message.key?.toString() === id) await read(topic, JSON.parse(message.value));
} });
topics.forEach((topic, i) => ends[i].forEach((end) => consumer.seek({ topic, ...end })));
const request = { messages: [{ role: 'user', content: prompt }], max_tokens: 300, temperature: 0 };
const reply = { kafka_replyTopic: endTopic, kafka_correlationId: `reply to ${id}` };
process.once('SIGINT', cancel); // a second Ctrl-C ends this program
await send('millrace.requests', JSON.stringify(request), options['reply-topic'] && reply);
await answered;
console.log();
console.error(result.finish_reason, result.usage, result.error ?? '');
await Promise.all([admin, consumer, producer].map((client) => client.disconnect()));
