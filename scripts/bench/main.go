// Bench runs the repository's benchmarks, and writes a page with tables and plots of their results.
//
//	go run ./scripts/bench [-page NAME] [-quick] [-only SUITES] [-benchtime T] [-render] [-out FOLDER]
//
// Run it from the repository's root, with the environment of scripts/env; `make bench` does both. A full run
// writes its page to docs/benchmarks, any other to build/bench/report. Results in the format of Go's
// benchmarks, which benchstat reads, too, stay in build/bench, a file a suite; -render writes the page from them again.
// A stopped run leaves the page as it was, and keeps the suites that ended: -only measures the others, and writes the
// page of all.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

// Outputs, relative to the repository's root.
const (
	workFolder = "build/bench"
	docFolder  = "docs/benchmarks"
)

type options struct {
	page      string
	quick     bool
	render    bool
	only      string
	benchtime string
	out       string
}

func main() {
	var o options
	flag.StringVar(&o.page, "page", pages[0].name, "the `page` to make: "+pageNames())
	flag.BoolVar(&o.quick, "quick", false, "each benchmark once, without those that take minutes")
	flag.BoolVar(&o.render, "render", false, "make the page from the last results, without a run")
	flag.StringVar(&o.only, "only", "", "the `suites` to run, separated by commas; the page has the last results of the others: "+strings.Join(allSuites(), ", "))
	flag.StringVar(&o.benchtime, "benchtime", "", "`time` or count (5x) of each benchmark; by default 2s, with -quick 1x")
	flag.StringVar(&o.out, "out", "", "the `folder` of the page; by default "+docFolder+" for a full run, else "+workFolder+"/report")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	err := run(ctx, o, flag.Args())
	if ctx.Err() != nil {
		err = errors.New("stopped: the page is as before; -only measures the suites that are missing")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, rest []string) error {
	if len(rest) > 0 {
		return fmt.Errorf("unknown argument %q; -help lists the options", rest[0])
	}
	if _, err := os.Stat("go.mod"); err != nil {
		return errors.New("there is no go.mod here: run it in the repository's root, or with make bench")
	}
	p, err := findPage(o.page)
	if err != nil {
		return err
	}
	results := filepath.Join(workFolder, strings.ReplaceAll(p.name+"-"+o.form(), " ", "-"))
	if !o.render {
		chosen, err := p.choose(o.only)
		if err != nil {
			return err
		}
		if o.only == "" {
			if err := os.RemoveAll(results); err != nil {
				return err
			}
		}
		if err := measure(ctx, o, p.rounds, chosen, results); err != nil {
			return err
		}
	}
	set, err := readResults(results, p.suites)
	if err != nil {
		return err
	}
	if o.out == "" {
		o.out = docFolder
		if !set.full() {
			o.out = filepath.Join(workFolder, "report")
		}
	}
	if err := p.write(o.out, set); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "bench: wrote", filepath.Join(o.out, p.file))
	return nil
}

func findPage(name string) (page, error) {
	for _, p := range pages {
		if p.name == name {
			return p, nil
		}
	}
	return page{}, fmt.Errorf("there is no page %q; the pages are %s", name, pageNames())
}

func pageNames() string {
	var names []string
	for _, p := range pages {
		names = append(names, p.name)
	}
	return strings.Join(names, ", ")
}

// choose returns suites by name, or all of them for "".
func (p page) choose(names string) ([]suite, error) {
	if names == "" {
		return p.suites, nil
	}
	var chosen []suite
	for _, name := range strings.Split(names, ",") {
		found := false
		for _, s := range p.suites {
			if s.name == strings.TrimSpace(name) {
				chosen, found = append(chosen, s), true
			}
		}
		if !found {
			return nil, fmt.Errorf("there is no suite %q; the suites are %s", name, strings.Join(suiteNames(p.suites), ", "))
		}
	}
	return chosen, nil
}

func allSuites() []string {
	var names []string
	for _, p := range pages {
		names = append(names, suiteNames(p.suites)...)
	}
	return names
}

func suiteNames(list []suite) []string {
	var names []string
	for _, s := range list {
		names = append(names, s.name)
	}
	return names
}
