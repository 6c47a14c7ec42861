"""Sends a prompt to millrace and prints the answer while it is computed. Ctrl-C cancels the request."""
import argparse, json, signal, sys, uuid
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--brokers", metavar="HOST:PORT", default="127.0.0.1:9092")
parser.add_argument("--cancel-after", type=int, metavar="TOKENS", default=0)
parser.add_argument("--reply-topic", metavar="TOPIC")
parser.add_argument("prompt")
options = parser.parse_args()
request_id = str(uuid.uuid4())
end_topic = options.reply_topic or "millrace.results"

# Start at the ends of the topics as they are before the request is sent, so that no record of the answer is missed.
consumer = Consumer({"bootstrap.servers": options.brokers, "group.id": "client", "enable.auto.commit": False})
topics = consumer.list_topics(timeout=10).topics
places = [TopicPartition(name, part) for name in ("millrace.tokens", end_topic) for part in topics[name].partitions]
for place in places:
    place.offset = consumer.get_watermark_offsets(place, timeout=10)[1]
consumer.assign(places)
producer = Producer({"bootstrap.servers": options.brokers, "enable.idempotence": True})

def send(topic, value, headers=None):
    def delivered(error, _):
        if error:
            raise KafkaException(error)
    producer.produce(topic, key=request_id, value=value, headers=headers, on_delivery=delivered)
    producer.flush()

def cancel(*_):
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second Ctrl-C ends this program
    send("millrace.cancel", "cancel")

request = {"messages": [{"role": "user", "content": options.prompt}], "max_tokens": 300, "temperature": 0}
reply = {"kafka_replyTopic": end_topic, "kafka_correlationId": f"reply to {request_id}"}
send("millrace.requests", json.dumps(request), reply if options.reply_topic else None)
signal.signal(signal.SIGINT, cancel)
attempt, before, shown, done = 0, {0: ""}, "", False  # before: the text before each token
while not done:
    record = consumer.poll(0.2)
    if record and record.error():
        raise KafkaException(record.error())
    if not record or record.key() != request_id.encode():
        continue
    value, done = json.loads(record.value()), record.topic() == end_topic
    index, text = value.get("index"), value["text"]  # the text of a result is the whole answer
    if not done:
        if value["attempt"] < attempt or index not in before:
            continue  # a record of a worker that was replaced
        attempt = value["attempt"]  # higher: a new worker, which starts over or continues at index
        text, end = before[index] + text, index + len(value["token_ids"])
        before.update((i, text) for i in range(index + 1, end + 1))
        if index < options.cancel_after <= end:
            cancel()
    if done or not shown.startswith(text):  # a text that differs from the shown one goes to a new line
        print(("\n" + text).removeprefix("\n" + shown), end="", flush=True)
        shown = text
print()
print(value["finish_reason"], value["usage"], value.get("error", ""), file=sys.stderr)
consumer.close()
