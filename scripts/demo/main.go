// Command demo asks a fine-tuned model the questions of held-out conversations, and
// compares its answers with theirs:
//
//	demo -finetune PROGRAM -model FILE -adapter FILE -data FILE [-show N] [-demand SHARE]
//
// It shows some evenly spaced questions with the answers before and after. It fails if too few answers equal
// the data word for word.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

func main() {
	var d demonstration
	flag.StringVar(&d.program, "finetune", "finetune", "the program that chats")
	flag.StringVar(&d.model, "model", "", "the model, a GGUF file")
	flag.StringVar(&d.adapter, "adapter", "", "its adapter")
	data := flag.String("data", "", "conversations of one question and one answer, JSONL")
	show := flag.Int("show", 5, "how many questions are shown with the answers before and after")
	demand := flag.Float64("demand", 0.5, "the share of answers that have to agree with the data")
	flag.Parse()
	if err := d.run(os.Stdout, *data, *show, *demand); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

type demonstration struct{ program, model, adapter string }

func (d *demonstration) run(out io.Writer, path string, show int, demand float64) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	pairs, err := readPairs(file)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	shown := evenly(show, len(pairs))
	var asked []pair
	for _, i := range shown {
		asked = append(asked, pairs[i])
	}
	before, err := d.answers(asked)
	if err != nil {
		return err
	}
	after, err := d.answers(pairs, "--lora", d.adapter)
	if err != nil {
		return err
	}
	for n, i := range shown {
		fmt.Fprintf(out, "\n%s\n  before: %s\n  after:  %s\n", pairs[i].question, oneLine(before[n]), oneLine(after[i]))
	}
	fmt.Fprintln(out)
	return judge(out, pairs, after, demand)
}

// evenly returns n evenly spaced numbers below count.
func evenly(n, count int) []int {
	n = min(n, count)
	var chosen []int
	for i := range n {
		chosen = append(chosen, (2*i+1)*count/(2*n))
	}
	return chosen
}

// judge counts the answers that equal the data's.
func judge(out io.Writer, pairs []pair, answers []string, demand float64) error {
	right := 0
	for i, p := range pairs {
		if strings.TrimSpace(answers[i]) == p.answer {
			right++
		}
	}
	fmt.Fprintf(out, "%d of %d questions that it was not trained on are answered word for word as the data would\n", right, len(pairs))
	if float64(right) < demand*float64(len(pairs)) {
		return fmt.Errorf("only %d of %d answers are right, and %.0f %% have to be", right, len(pairs), 100*demand)
	}
	return nil
}

// A pair is a question and the expected answer.
type pair struct{ question, answer string }

func readPairs(r io.Reader) ([]pair, error) {
	var pairs []pair
	for decoder := json.NewDecoder(r); ; {
		var record struct{ Messages []message }
		err := decoder.Decode(&record)
		if err == io.EOF && len(pairs) == 0 {
			return nil, errors.New("there is no conversation")
		}
		if err == io.EOF {
			return pairs, nil
		}
		if err != nil {
			return nil, err
		}
		m := record.Messages
		if len(m) != 2 || m[0].Role != "user" || m[1].Role != "assistant" {
			return nil, fmt.Errorf("conversation %d is not one question and one answer", len(pairs)+1)
		}
		pairs = append(pairs, pair{m[0].Content, m[1].Content})
	}
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// longest limits the tokens of an answer: no answer in the data is longer, and a model without an adapter would
// ramble on.
const longest = 48

// answers asks each question in a separate conversation.
func (d *demonstration) answers(pairs []pair, flags ...string) ([]string, error) {
	var questions, replies bytes.Buffer
	encoder := json.NewEncoder(&questions)
	for _, p := range pairs {
		if err := encoder.Encode(map[string]any{"messages": []message{{"user", p.question}}}); err != nil {
			return nil, err
		}
	}
	args := append([]string{"chat", "--model", d.model, "--json", "--temp", "0", "-n", fmt.Sprint(longest)}, flags...)
	chat := exec.Command(d.program, args...)
	chat.Stdin, chat.Stdout, chat.Stderr = &questions, &replies, os.Stderr
	if err := chat.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(chat.Args, " "), err)
	}
	var answers []string
	for lines := bufio.NewScanner(&replies); lines.Scan(); {
		var reply struct{ Content string }
		if err := json.Unmarshal(lines.Bytes(), &reply); err != nil {
			return nil, err
		}
		answers = append(answers, reply.Content)
	}
	if len(answers) != len(pairs) {
		return nil, fmt.Errorf("%d questions and %d answers", len(pairs), len(answers))
	}
	return answers, nil
}

// oneLine shortens a long answer.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > 160 {
		return string(runes[:160]) + " …"
	}
	return text
}
