package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// answer prints the text of one request from its records, in the order in which they are read.
type answer struct {
	attempt int
	before  map[int]string // of each token, the text before it
	shown   string
	done    bool
}

func newAnswer() answer {
	return answer{before: map[int]string{0: ""}}
}

// add prints what a token record, or the result, adds to the text. It returns the number of tokens so far.
func (a *answer) add(record []byte, isResult bool) int {
	var value struct {
		Attempt, Index int
		TokenIDs       []int `json:"token_ids"`
		Text           string
		FinishReason   string `json:"finish_reason"`
		Usage, Error   json.RawMessage
	}
	must(0, json.Unmarshal(record, &value))
	if isResult {
		a.done = true
		a.print(value.Text) // the whole answer
		fmt.Println()
		fmt.Fprintf(os.Stderr, "%s %s %s\n", value.FinishReason, value.Usage, value.Error)
		return 0
	}
	text, known := a.before[value.Index]
	if value.Attempt < a.attempt || !known {
		return 0 // a record of a worker that was replaced
	}
	a.attempt = value.Attempt // higher: a new worker, which starts over or continues at Index
	text += value.Text
	for i := range value.TokenIDs {
		a.before[value.Index+i+1] = text
	}
	if !strings.HasPrefix(a.shown, text) {
		a.print(text)
	}
	return value.Index + len(value.TokenIDs)
}

// print prints what was not shown yet; a text that differs from what was shown goes to a new line.
func (a *answer) print(text string) {
	fmt.Print(strings.TrimPrefix("\n"+text, "\n"+a.shown))
	a.shown = text
}
