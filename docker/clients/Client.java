// Sends a prompt to millrace and prints the answer while it is computed. Ctrl-C cancels the request.
import static java.nio.charset.StandardCharsets.UTF_8;
import com.fasterxml.jackson.databind.*;
import java.util.*;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.*;

public class Client {
    public static void main(String[] args) throws Exception {
        var options = new HashMap<>(Map.of("--brokers", "127.0.0.1:9092", "--cancel-after", "0"));
        for (int i = 0; i + 1 < args.length; i += 2) options.put(args[i], args[i + 1]);
        String id = UUID.randomUUID().toString(), endTopic = options.getOrDefault("--reply-topic", "millrace.results");
        var settings = Map.<String, Object>of("bootstrap.servers", options.get("--brokers"),
            "isolation.level", "read_committed", "allow.auto.create.topics", false);
        var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        // Start at the ends of the topics as they are before the request is sent, so that no record of the answer is missed.
        var places = List.of("millrace.tokens", endTopic).stream().map(consumer::partitionsFor).flatMap(List::stream)
            .map(place -> new TopicPartition(place.topic(), place.partition())).toList();
        consumer.assign(places);
        consumer.endOffsets(places).forEach(consumer::seek);
        var json = new ObjectMapper();
        var request = new ProducerRecord<>("millrace.requests", id, json.writeValueAsString(Map.of("max_tokens", 300,
            "messages", List.of(Map.of("role", "user", "content", args[args.length - 1])), "temperature", 0)));
        if (options.containsKey("--reply-topic")) request.headers().add("kafka_replyTopic", endTopic.getBytes(UTF_8))
            .add("kafka_correlationId", ("reply to " + id).getBytes(UTF_8));
        producer.send(request).get();
        var main = Thread.currentThread();
        var cancel = new ProducerRecord<>("millrace.cancel", id, "cancel");
        Runtime.getRuntime().addShutdownHook(new Thread(() -> { // runs at Ctrl-C, and when main has ended
            try { if (main.isAlive()) { producer.send(cancel); main.join(10_000); } } catch (InterruptedException end) { }
        }));
        int attempt = 0, cancelAfter = Integer.parseInt(options.get("--cancel-after"));
        var before = new HashMap<>(Map.of(0, "")); // of each token, the text before it
        JsonNode result = null;
        for (String shown = ""; result == null;)
            for (var record : consumer.poll(java.time.Duration.ofMillis(200))) {
                if (!id.equals(record.key()) || result != null) continue;
                JsonNode value = json.readTree(record.value());
                int index = value.path("index").asInt(), end = index + value.path("token_ids").size();
                String text = value.get("text").asText(); // the text of a result is the whole answer
                if (record.topic().equals(endTopic)) result = value;
                else if (value.get("attempt").asInt() >= attempt && before.containsKey(index)) {
                    attempt = value.get("attempt").asInt(); // higher: a new worker, which starts over or continues
                    text = before.get(index) + text;
                    for (int i = index; i < end; i++) before.put(i + 1, text);
                    if (index < cancelAfter && cancelAfter <= end) producer.send(cancel);
                } else continue; // a record of a worker that was replaced
                if (result == null && shown.startsWith(text)) continue;
                String added = text.startsWith(shown) ? text.substring(shown.length()) : "\n" + text;
                System.out.writeBytes(added.getBytes(UTF_8));
                shown = text;
            }
        System.out.println();
        System.err.println(result.get("finish_reason") + " " + result.get("usage") + " " + result.path("error"));
        consumer.close();
    }
}
