package main

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

const (
	fontSize   = 14
	charWidth  = 8.4 // of the font's size, in all monospaced fonts that are likely
	lineHeight = 20
	margin     = 16
	titleBar   = 28
	columns    = 110
	typing     = 0.9 // seconds before a command's output
	longest    = 0.6 // seconds between two lines: waiting is cut
	rest       = 6   // seconds at the end, before it begins again
)

// A row is a line at its place, and the share of the film in which it is seen.
type row struct {
	text     string
	number   int
	from, to float64
}

// draw draws a recording.
func draw(cast io.Reader, out io.Writer) error {
	decoder := json.NewDecoder(cast)
	var h header
	if err := decoder.Decode(&h); err != nil {
		return err
	}
	var events []event
	for decoder.More() {
		var e event
		if err := decoder.Decode(&e); err != nil {
			return err
		}
		events = append(events, e)
	}
	for len(events) > 0 && strings.TrimSpace(events[len(events)-1].Line) == "" {
		events = events[:len(events)-1]
	}
	if h.Version != 2 || len(events) == 0 {
		return fmt.Errorf("no asciicast of version 2 with lines")
	}
	rows, duration := arrange(events)
	return picture(out, rows, duration)
}

// arrange gives each line its place and its time. A line of progress replaces the one before, as it does in a terminal.
func arrange(events []event) ([]row, float64) {
	var rows []row
	clock, before, next := 0.0, events[0].At, 0
	for i, e := range events {
		clock += min(e.At-before, longest)
		before = e.At
		if i > 0 && isCommand(events[i-1].Line) {
			clock += typing
		}
		parts := wrap(e.Line)
		if isProgress(e.Line) && len(rows) > 0 && isProgress(rows[len(rows)-1].text) {
			rows[len(rows)-1].to = clock
			next--
		}
		if i > 0 && isCommand(e.Line) && !isComment(events[i-1].Line) {
			next++ // an empty line
		}
		for _, part := range parts {
			rows = append(rows, row{text: part, number: next, from: clock})
			next++
		}
	}
	duration := clock + rest
	for i := range rows {
		if rows[i].to == 0 {
			rows[i].to = duration
		}
	}
	return rows, duration
}

func isComment(line string) bool { return strings.HasPrefix(line, "#") }
func isCommand(line string) bool { return strings.HasPrefix(line, prompt) || isComment(line) }

func isProgress(line string) bool {
	return strings.HasPrefix(line, "step ") && !strings.Contains(line, "validation")
}

// wrap breaks a line at spaces; what follows is indented.
func wrap(line string) []string {
	line = strings.TrimRight(line, " ")
	const indent = "    "
	var parts []string
	for utf8.RuneCountInString(line) > columns {
		runes := []rune(line)
		end := columns
		for i := columns; i > columns/2; i-- {
			if runes[i] == ' ' {
				end = i
				break
			}
		}
		parts = append(parts, string(runes[:end]))
		line = indent + strings.TrimLeft(string(runes[end:]), " ")
	}
	return append(parts, line)
}

// picture writes the SVG. Where nothing moves (a renderer without animation), the last frame is seen.
func picture(out io.Writer, rows []row, duration float64) error {
	height := 0
	for _, r := range rows {
		height = max(height, r.number+1)
	}
	width := int(columns*charWidth) + 2*margin
	pixels := titleBar + height*lineHeight + margin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace" font-size="%d">
<style>
.back { fill: #ffffff; stroke: #d0d7de } .text { fill: #1f2328; white-space: pre } .command { fill: #0550ae; font-weight: 600 } .faint { fill: #59636e }
@media (prefers-color-scheme: dark) { .back { fill: #0d1117; stroke: #30363d } .text { fill: #e6edf3 } .command { fill: #79c0ff } .faint { fill: #9198a1 } }
@media (prefers-reduced-motion: reduce) { text { animation: none !important } }
`, width, pixels, width, pixels, fontSize)
	for i, r := range rows {
		if r.from > 0 || r.to < duration {
			fmt.Fprintf(&b, "@keyframes k%d { 0%% { opacity: 0 } %.2f%% { opacity: 0 } %.2f%% { opacity: 1 } %.2f%% { opacity: 1 } %.2f%%, 100%% { opacity: %d } }\n",
				i, percent(r.from, duration), percent(r.from, duration)+0.01, percent(r.to, duration)-0.02, percent(r.to, duration)-0.01, last(r, duration))
		}
	}
	fmt.Fprintf(&b, "</style>\n<rect class=\"back\" x=\"0.5\" y=\"0.5\" width=\"%d\" height=\"%d\" rx=\"8\"/>\n", width-1, pixels-1)
	for i, colour := range []string{"#ff5f57", "#febc2e", "#28c840"} {
		fmt.Fprintf(&b, `<circle cx="%d" cy="16" r="5" fill="%s"/>`, margin+5+i*18, colour)
	}
	b.WriteString("\n")
	for i, r := range rows {
		style := ""
		if r.from > 0 || r.to < duration {
			style = fmt.Sprintf(` opacity="%d" style="animation: k%d %.1fs infinite"`, last(r, duration), i, duration)
		}
		var text strings.Builder
		if err := xml.EscapeText(&text, []byte(r.text)); err != nil {
			return err
		}
		fmt.Fprintf(&b, `<text xml:space="preserve" class="%s" x="%d" y="%d"%s>%s</text>`+"\n", class(rows, i), margin, titleBar+r.number*lineHeight+15, style, text.String())
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(out, b.String())
	return err
}

func percent(at, duration float64) float64 { return 100 * at / duration }

// last is the opacity of a row at the end.
func last(r row, duration float64) int {
	if r.to < duration {
		return 0
	}
	return 1
}

// class is how a row is coloured: commands, with the lines that they go on in, stand out.
func class(rows []row, i int) string {
	command := i
	for command > 0 && rows[command].from == rows[i].from && strings.HasPrefix(rows[command].text, "    ") {
		command--
	}
	switch text := rows[command].text; {
	case isComment(text):
		return "text faint"
	case isCommand(text) && rows[command].from == rows[i].from:
		return "text command"
	case isProgress(rows[i].text):
		return "text faint"
	}
	return "text"
}
