package main

import (
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"sort"
	"strings"
)

// goPackage is one directory of the standard library.
type goPackage struct {
	path  string   // import path, such as net/http
	dir   string   // directory that holds the files
	files []string // names of its Go files but tests, sorted
}

// listPackages finds the standard library below goroot, sorted by import path.
// Files for every operating system count, so that the result is the same on
// all of them. Commands and vendored modules are no part of the library.
func listPackages(goroot string) ([]goPackage, error) {
	// Debian's GOROOT/src is a symbolic link, which WalkDir does not follow.
	src, err := filepath.EvalSymlinks(filepath.Join(goroot, "src"))
	if err != nil {
		return nil, noSource(goroot)
	}
	byPath := make(map[string]*goPackage)
	err = filepath.WalkDir(src, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(src, file)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if entry.IsDir() {
			if skipDir(rel) {
				return fs.SkipDir
			}
			return nil
		}
		dir, name := path.Split(rel)
		dir = path.Clean(dir)
		if dir == "." || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		if byPath[dir] == nil {
			byPath[dir] = &goPackage{path: dir, dir: filepath.Join(src, filepath.FromSlash(dir))}
		}
		byPath[dir].files = append(byPath[dir].files, name)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the standard library: %w", err)
	}
	if len(byPath) == 0 {
		return nil, noSource(goroot)
	}
	pkgs := make([]goPackage, 0, len(byPath))
	for _, p := range byPath {
		sort.Strings(p.files)
		pkgs = append(pkgs, *p)
	}
	sort.Slice(pkgs, func(i, j int) bool { return pkgs[i].path < pkgs[j].path })
	return pkgs, nil
}

func skipDir(rel string) bool {
	base := path.Base(rel)
	return rel == "cmd" || base == "testdata" || base == "vendor" ||
		rel != "." && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_"))
}

func noSource(goroot string) error {
	return fmt.Errorf("%s holds no Go source: install the standard library's source "+
		"(Debian and Ubuntu: apt install golang-src), or name another Go installation with -goroot",
		filepath.Join(goroot, "src"))
}
