package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// write writes the page and its pictures into the folder. It omits views and sections without results.
func (p page) write(folder string, s *resultSet) error {
	var b strings.Builder
	p.introduce(&b, s)
	for _, section := range p.sections {
		var views []string
		for _, v := range section.views {
			text, err := v.render(folder, s)
			if err != nil {
				return err
			}
			if text != "" {
				views = append(views, text)
			}
		}
		if len(views) > 0 {
			fmt.Fprintf(&b, "\n## %s\n\n%s\n\n%s", section.title, section.text, strings.Join(views, "\n"))
		}
	}
	if len(s.skipped) > 0 {
		fmt.Fprintf(&b, "\n## Not measured\n\n")
		for _, text := range s.skipped {
			fmt.Fprintf(&b, "- %s\n", text)
		}
	}
	return writeFile(filepath.Join(folder, p.file), []byte(b.String()))
}

func (p page) introduce(b *strings.Builder, s *resultSet) {
	title := p.title
	if library := s.facts[keyGEMMLibrary]; library != "" {
		title += ": " + library // it influences the speed more than anything else
	}
	fmt.Fprintf(b, "# %s\n\n%s\n\n", title, p.text)
	if !s.full() {
		fmt.Fprintf(b, "**This was not a full run (%s): its numbers are rough.**\n\n", s.facts[keyForm])
	}
	writeRow(b, []string{"", ""})
	writeRow(b, []string{"---", "---"})
	machine := []fact{
		{"processor", keyProcessor}, {"cores", keyCores}, {"memory", "memory"}, {"system", "system"}, {"Go", "go"},
		{"ggml", "ggml"}, {"its CPU plugin uses", "cpu-features"}, {"GEMM library", keyGEMMLibrary},
	}
	for _, f := range slices.Concat(machine, p.beside, []fact{{"date", keyDate}, {"duration", keyTook}}) {
		if v := s.facts[f.value]; v != "" {
			writeRow(b, []string{f.key, v})
		}
	}
	if len(s.distances) > 0 {
		least, most := slices.Min(s.distances), slices.Max(s.distances)
		writeRow(b, []string{"a cache line to another core and back", fmt.Sprintf("%.0f to %.0f ns", least, most)})
	}
	if s.alien > most {
		fmt.Fprintf(b, "\nOther programs used %.1f cores meanwhile. That slows everything down, what uses all cores most of all: "+
			"**repeat it on an idle machine.**\n", s.alien)
	}
}
