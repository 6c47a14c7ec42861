// Sends a prompt to millrace and prints the answer while it is computed. Ctrl-C cancels the request.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"log"
	"os"
	"os/signal"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func main() {
	brokers := flag.String("brokers", "127.0.0.1:9092", "`HOST:PORT` of any broker")
	cancelAfter := flag.Int("cancel-after", 0, "cancel the request after this number of `tokens`")
	replyTopic := flag.String("reply-topic", "", "read the result from this `topic`")
	flag.Parse()
	ctx, id, endTopic := context.Background(), uuid.NewString(), "millrace.results"
	request := &kgo.Record{Topic: "millrace.requests", Key: []byte(id), Value: must(json.Marshal(map[string]any{
		"messages": []any{map[string]any{"role": "user", "content": flag.Arg(0)}}, "max_tokens": 300, "temperature": 0}))}
	if *replyTopic != "" {
		endTopic = *replyTopic
		request.Headers = []kgo.RecordHeader{{Key: "kafka_replyTopic", Value: []byte(endTopic)},
			{Key: "kafka_correlationId", Value: []byte("reply to " + id)}}
	}
	client := must(kgo.NewClient(kgo.SeedBrokers(*brokers), kgo.FetchIsolationLevel(kgo.ReadCommitted())))
	// Start at the ends of the topics as they are before the request is sent, so that no record of the answer is missed.
	ends := must(kadm.NewClient(client).ListEndOffsets(ctx, "millrace.tokens", endTopic))
	client.AddConsumePartitions(must(ends, ends.Error()).KOffsets())
	must(client.ProduceSync(ctx, request).First())
	cancelled, cancel := signal.NotifyContext(ctx, os.Interrupt)
	go func() {
		<-cancelled.Done()
		cancel() // a second Ctrl-C ends this program
		record := &kgo.Record{Topic: "millrace.cancel", Key: request.Key, Value: []byte("cancel")}
		must(client.ProduceSync(ctx, record).First())
	}()
	for answer := newAnswer(); !answer.done; {
		fetches := client.PollFetches(ctx)
		for _, record := range must(fetches, fetches.Err()).Records() {
			if string(record.Key) == id && !answer.done {
				tokens := answer.add(record.Value, record.Topic == endTopic)
				if *cancelAfter > 0 && tokens >= *cancelAfter {
					cancel()
				}
			}
		}
	}
}
