package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/goggml/ggml/internal/computethread"
	"github.com/goggml/ggml/internal/rpcrelay"
	"github.com/goggml/ggml/internal/testhook"
)

// registryLock guards ggml's list of backends and devices, and the removals by Unload: unlisted
// holds devices that ggml still lists.
var (
	registryLock sync.RWMutex
	unlisted     = map[C.ggml_backend_dev_t]bool{}
	takenOff     = map[string]bool{} // removed backends by name
)

// isTakenOff reports whether Unload has removed a backend from the list.
func isTakenOff(name string) bool {
	registryLock.RLock()
	defer registryLock.RUnlock()
	return takenOff[name]
}

// lockRegistry locks the list, and holds back log messages until it is unlocked.
func lockRegistry() (unlock func()) {
	release := heldLog.hold()
	registryLock.Lock()
	return func() {
		registryLock.Unlock()
		release()
	}
}

var (
	loadOnce = sync.OnceValue(loadBackends)
	loaded   atomic.Bool // loadOnce has returned
	unloaded atomic.Bool // Unload has removed a backend since
)

// unloadedHint returns the remedy for an unloaded backend.
func unloadedHint() string {
	if unloaded.Load() {
		return "; LoadBackends restores backends that Unload has removed"
	}
	return ""
}

// LoadBackends loads the installed plugins: the CPU plugin that suits the processor best, and every
// other plugin that finds its device. Functions that need plugins call it; calling it early shows
// errors early. It searches the folder in GGML_BACKEND_PATH, the plugin folder of the C library in
// use, and the program's own folder. Plugins removed by [Registry.Unload] come back only if the
// program calls it.
//
// It is safe for concurrent use. C: ggml_backend_load_all.
func LoadBackends() error {
	if err := loadPlugins(); err != nil || !unloaded.CompareAndSwap(true, false) {
		return err
	}
	err := loadBackends()
	unloaded.Store(err != nil)
	if err == nil {
		registryLock.Lock()
		defer registryLock.Unlock()
		clear(takenOff)
	}
	return err
}

// loadPlugins loads the plugins at the first call of LoadBackends.
func loadPlugins() error {
	if !loaded.Load() {
		defer heldLog.hold()() // a log handler may get here, too
	}
	err := loadOnce()
	loaded.Store(true)
	return err
}

func loadBackends() error {
	if err := checkVersion(Version()); err != nil {
		return err
	}
	// ggml's BLAS backend loads a library that hangs if address space is short.
	if err := computethread.CheckAddressSpace(); err != nil {
		return fmt.Errorf("ggml: plugins cannot be loaded: %w", err)
	}
	defer computethread.LimitBLASThreads()()
	folders := pluginFolders()
	for _, folder := range folders {
		if err := LoadBackendsFrom(folder); err != nil {
			return err
		}
		if C.ggml_backend_dev_by_type(C.GGML_BACKEND_DEVICE_TYPE_CPU) != nil {
			return checkBuildTags(required)
		}
	}
	if err := openable(); err != nil {
		return fmt.Errorf("ggml: CPU %w: plugins cannot be opened: %w; raise the limit of open files (ulimit -n)", ErrNotLoaded, err)
	}
	return fmt.Errorf("ggml: CPU %w: there is no CPU plugin in %s; %s",
		ErrNotLoaded, strings.Join(folders, ", "), installHints["CPU"])
}

// openable tries to open as many files as loading a plugin opens at once.
func openable() error {
	for range 3 {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return err
		}
		defer f.Close()
	}
	return nil
}

// LoadBackendsFrom loads the plugins of one folder, for each kind the plugin that suits this
// machine best; [LoadBackends] does so for the usual folders. It is safe for concurrent use. C:
// ggml_backend_load_all_from_path.
func LoadBackendsFrom(folder string) error {
	if info, err := os.Stat(folder); err != nil {
		return fmt.Errorf("ggml: loading backends: %w", err)
	} else if !info.IsDir() {
		return fmt.Errorf("ggml: loading backends: %s is not a folder", folder)
	}
	defer lockRegistry()()
	if err := withCString(folder, func(s *C.char) error { return guardError(C.goggml_load_all_from(s)) }); err != nil {
		return fmt.Errorf("ggml: loading the backends in %s: %w", folder, err)
	}
	return nil
}

// pluginFolders lists the folders with plugins, best first.
func pluginFolders() []string {
	var folders []string
	add := func(folder string) {
		if found, _ := filepath.Glob(filepath.Join(folder, "libggml-*")); len(found) > 0 {
			folders = append(folders, folder)
		}
	}
	if path := os.Getenv("GGML_BACKEND_PATH"); path != "" {
		add(path)
	}
	if p := C.goggml_library_folder(); p != nil {
		folder := C.GoString(p)
		C.free(unsafe.Pointer(p))
		versions, _ := filepath.Glob(filepath.Join(folder, "ggml", "backends*"))
		sort.Sort(sort.Reverse(sort.StringSlice(versions)))
		for _, v := range versions {
			add(v)
		}
		add(filepath.Join(filepath.Dir(folder), "libexec"))
		add(folder)
	}
	if exe, err := os.Executable(); err == nil {
		add(filepath.Dir(exe))
	}
	return folders
}

// LoadBackend loads one plugin from a file. C: ggml_backend_load.
func LoadBackend(path string) (*Registry, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("ggml: load backend: %w: %w", ErrNotLoaded, err)
	}
	defer lockRegistry()()
	r := withCString(path, func(s *C.char) C.goggml_ptr { return C.goggml_load(s) })
	if err := guardError(r.error); err != nil {
		return nil, fmt.Errorf("ggml: load backend %s: %w", path, err)
	}
	if r.value == nil {
		return nil, fmt.Errorf("ggml: load backend %s: %w: it is not a plugin of ggml %s for this machine", path, ErrNotLoaded, Version())
	}
	return &Registry{C.ggml_backend_reg_t(r.value)}, nil
}

// A Registry is a loaded backend plugin with its devices. It stays valid for
// the life of the process. C: ggml_backend_reg_t.
type Registry struct{ r C.ggml_backend_reg_t }

// isZero reports whether r is nil, a zero value, or the registry of a meta device.
func (r *Registry) isZero() bool { return r == nil || r.r == nil }

// Unload removes the backend and its devices from [Registries] and [Devices]. The plugin's code
// stays in memory: a [Device] that the program has, and all objects made of it, stay valid.
// [LoadBackends], [LoadBackendsFrom] and [LoadBackend] list the backend again. C:
// ggml_backend_unload.
func (r *Registry) Unload() error {
	if r.isZero() {
		return fmt.Errorf("ggml: unload: %w; the backend of a meta device cannot be unloaded", ErrZeroValue)
	}
	forgetRPCServer(r)
	defer lockRegistry()()
	for i := range C.ggml_backend_reg_count() {
		if C.ggml_backend_reg_get(i) != r.r {
			continue
		}
		for _, d := range r.Devices() {
			if d.Registry().r != r.r { // a server's device, which ggml cannot unlist
				unlisted[d.d] = true
			}
		}
		unloaded.Store(true)
		takenOff[r.Name()] = true
		return guardError(C.goggml_unload(r.r))
	}
	return fmt.Errorf("ggml: unload: backend %s: %w", r.Name(), ErrNotLoaded)
}

// Registries iterates over the loaded backends.
// C: ggml_backend_reg_count, ggml_backend_reg_get.
func Registries() iter.Seq[*Registry] {
	return func(yield func(*Registry) bool) {
		if loadPlugins() != nil {
			return
		}
		registries()(yield)
	}
}

// registries is Registries after the plugins are loaded.
func registries() iter.Seq[*Registry] {
	return func(yield func(*Registry) bool) {
		registryLock.RLock()
		var list []*Registry
		for i := range C.ggml_backend_reg_count() {
			list = append(list, &Registry{C.ggml_backend_reg_get(i)})
		}
		registryLock.RUnlock()
		for _, r := range list {
			if onlyCPU && r.Name() != "CPU" {
				continue
			}
			if !yield(r) {
				return
			}
		}
	}
}

// RegistryByName returns a loaded backend by its name, for example "CPU" or "RPC"; the error lists
// all names. C: ggml_backend_reg_by_name.
func RegistryByName(name string) (*Registry, error) {
	if err := loadPlugins(); err != nil {
		return nil, err
	}
	var names []string
	for r := range registries() {
		if strings.EqualFold(r.Name(), name) {
			return r, nil
		}
		names = append(names, r.Name())
	}
	return nil, fmt.Errorf("ggml: backend %q: %w; the backends are %s", name, ErrNotLoaded, strings.Join(names, ", "))
}

// Name returns the name of the backend, for example "CPU"; "" for a meta device. C:
// ggml_backend_reg_name.
func (r *Registry) Name() string {
	if r.isZero() {
		return ""
	}
	return rpcrelay.DisplayName(C.GoString(C.ggml_backend_reg_name(r.r)))
}

// Devices lists the devices of the backend.
// C: ggml_backend_reg_dev_count, ggml_backend_reg_dev_get.
func (r *Registry) Devices() []*Device {
	if r.isZero() {
		return nil
	}
	var devices []*Device
	for i := range C.ggml_backend_reg_dev_count(r.r) {
		devices = append(devices, &Device{C.ggml_backend_reg_dev_get(r.r, i)})
	}
	return devices
}

// backendDevices lists the devices of the named backend.
func backendDevices(name string) ([]*Device, error) {
	if err := loadPlugins(); err != nil {
		return nil, err
	}
	return registryDevices(name)
}

// registryDevices is backendDevices after the plugins are loaded.
func registryDevices(name string) ([]*Device, error) {
	for r := range registries() {
		if r.Name() != name {
			continue
		}
		if devices := r.Devices(); len(devices) > 0 {
			return devices, nil
		}
	}
	return nil, notLoaded(name)
}

func newNumberedBackend(name string, device int) (*Backend, error) {
	devices, err := backendDevices(name)
	if err != nil {
		return nil, err
	}
	if device < 0 || device >= len(devices) {
		return nil, fmt.Errorf("ggml: %s device %d: there are %d, numbered from 0", name, device, len(devices))
	}
	return devices[device].NewBackend()
}

func init() { testhook.CheckBuildTags = checkBuildTags }

func checkBuildTags(required map[string]string) error {
	for _, tag := range slices.Sorted(maps.Keys(required)) {
		if _, err := registryDevices(required[tag]); err != nil {
			return fmt.Errorf("%w; the program was built with the tag %s, which requires it: without the tag it runs on the CPU", err, tag)
		}
	}
	return nil
}

// Symbol returns the address of a function or variable that the plugin exports, for C code such as
// a [NativeOp]; nil if there is no such symbol. The address is valid until [Registry.Unload].
// Plumbing: programs rarely need it. C: ggml_backend_reg_get_proc_address, else dlsym.
func (r *Registry) Symbol(name string) unsafe.Pointer {
	if r.isZero() {
		return nil
	}
	return withCString(name, func(s *C.char) unsafe.Pointer { return unsafe.Pointer(C.goggml_reg_symbol(r.r, s)) })
}
