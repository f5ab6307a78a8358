package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/exclusive"
	"github.com/goggml/ggml/internal/filelink"
	"github.com/goggml/ggml/internal/filelock"
)

// Default names of the files in a folder.
const (
	Adapter    = "adapter.gguf"
	Best       = "adapter-best.gguf"
	Checkpoint = "checkpoint.gguf"
	Metrics    = "metrics.jsonl"
	Loss       = "loss" // a picture of the loss curve, in any format
	Cache      = "cache"
	Config     = "config.yaml"   // the settings of the program
	Commands   = "commands.txt"  // the commands that began or continued the run
	Card       = "README.md"     // a description of the run for people
	Samples    = "samples.jsonl" // the model's answers to prompts, one [Sample] per line
	manifest   = "manifest.json"
	lock       = ".lock"
)

// Kept is the default number of the newest saves that stay in a folder.
const Kept = 3

// A Folder is the folder of a run that this process begins or continues, and locks exclusively. It is used by one
// goroutine.
type Folder struct {
	Path   string
	isNew  bool // CreateNew made it
	lock   *os.File
	access exclusive.Access
}

// Create makes the folder of a run if it does not exist, and locks it until it is closed or the process ends, even
// by a crash.
func Create(path string) (*Folder, error) {
	if path == "" {
		return nil, errors.New("the run has no folder: its path is empty")
	}
	if err := filelink.MkdirAll(path, 0o777); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(path, lock), os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return nil, err
	}
	err = filelock.Lock(file)                                            // some file systems have no locks
	for try := 0; try < 5 && errors.Is(err, filelock.ErrLocked); try++ { // State locks it for a moment
		time.Sleep(10 * time.Millisecond)
		err = filelock.Lock(file)
	}
	if errors.Is(err, filelock.ErrLocked) {
		file.Close()
		return nil, fmt.Errorf("another process is writing the run in %s; wait for it to end, or name another folder", path)
	}
	return &Folder{Path: path, lock: file}, nil
}

// CreateNew makes a new folder inside runs: name, or else name-2, name-3 and so on.
func CreateNew(runs, name string) (*Folder, error) {
	if name != filepath.Base(name) || name == "." || name == ".." {
		return nil, fmt.Errorf("%q is not the name of a folder", name)
	}
	if runs == "" {
		return nil, errors.New("the folder of runs has no name: its path is empty; \".\" is the working directory")
	}
	if err := filelink.MkdirAll(runs, 0o777); err != nil {
		return nil, err
	}
	path := filepath.Join(runs, name)
	for n := 2; ; n++ {
		err := os.Mkdir(path, 0o777)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		path = filepath.Join(runs, fmt.Sprintf("%s-%d", name, n))
	}
	f, err := Create(path)
	if err != nil {
		return nil, err
	}
	f.isNew = true
	return f, nil
}

// Close unlocks the folder. A folder that [CreateNew] made is removed if no run began in it.
func (f *Folder) Close() error {
	if f == nil {
		return nil
	}
	if err := f.access.Acquire("Folder.Close", "Folder"); err != nil {
		return err
	}
	defer f.access.Release()
	if f.lock == nil {
		return nil
	}
	err := errors.Join(f.removeUnused(), f.lock.Close())
	f.lock = nil
	return err
}

// acquire locks the folder for a call, if it is open.
func (f *Folder) acquire(method string) error {
	if f == nil {
		return errors.New("the folder is nil")
	}
	if err := f.access.Acquire(method, "Folder"); err != nil {
		return err
	}
	if f.lock == nil {
		f.access.Release()
		return errors.New("the folder is closed, or a zero value; Create opens one")
	}
	return nil
}

func (f *Folder) removeUnused() error {
	if !f.isNew || Is(f.Path) {
		return nil
	}
	os.Remove(f.File(lock))
	os.RemoveAll(f.File(Cache))
	err := os.Remove(f.Path)
	os.Remove(filepath.Dir(f.Path)) // fails if it contains other runs
	return err
}

// File returns the path of a file in the folder.
func (f *Folder) File(name string) string { return filepath.Join(f.Path, name) }

// Continued returns the manifest of the run that continues from a checkpoint. It is empty if the checkpoint does not
// exist: a new run begins.
func (f *Folder) Continued(checkpoint string) (Manifest, error) {
	if _, err := os.Stat(checkpoint); err != nil {
		return Manifest{}, nil
	}
	before, _, err := ReadManifest(f.Path)
	return before, err
}

// Describe writes the manifest of the run that begins or continues. Program and GGML are filled in if empty, and
// paths may be relative to the working directory.
func (f *Folder) Describe(m Manifest) error {
	if err := f.acquire("Folder.Describe"); err != nil {
		return err
	}
	defer f.access.Release()
	if m.Program == "" {
		m.Program = moduleVersion()
	}
	if m.GGML == "" {
		m.GGML = ggml.Version()
	}
	for _, path := range []*string{&m.Adapter, &m.Best, &m.Metrics} {
		*path = filelink.ToFolder(f.Path, *path)
	}
	return m.write(f.Path)
}

// WriteConfig replaces the program's settings file; text may have any format.
func (f *Folder) WriteConfig(text []byte) error {
	if err := f.acquire("Folder.WriteConfig"); err != nil {
		return err
	}
	defer f.access.Release()
	return filelink.Replace(f.File(Config), text)
}

// AddCommand records the command that begins or continues the run, see [Run.Starts].
func (f *Folder) AddCommand(command string) error {
	if err := f.acquire("Folder.AddCommand"); err != nil {
		return err
	}
	defer f.access.Release()
	line := fmt.Sprintf("%s  %s\n", time.Now().UTC().Format(time.RFC3339), command)
	return filelink.Append(f.File(Commands), []byte(line))
}

// moduleVersion returns the version of the module that the program was built from.
func moduleVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	version := info.Main.Path + " " + info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			version += " " + s.Value
		}
	}
	return version
}
