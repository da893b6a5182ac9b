// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/load_object.h"

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <utility>
#include <vector>

#include "device/cpu/host_functions.h"
#include "device/cpu/link_rules.h"
#include "target/cpus.h"

namespace graft {
namespace {

constexpr uint64_t kLargest = uint64_t{1} << 30;  ///< of a whole object in memory

Status malformed(const std::string& what) { return Status(ErrorKind::kInvalidModel, "kernel object: " + what); }

/// Sections are placed in three groups of pages, by what may be done with them.
enum class Access : uint8_t { kExecute, kRead, kWrite };
constexpr int kGroups = 3;

uint64_t round_up(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

/// Reads and links one object. Every method returns an error for bytes that are not what they claim to be.
class Linker {
 public:
  explicit Linker(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  Status parse() {
    if (Status s = read_header(); !s.ok()) return s;
    if (Status s = read_symbols(); !s.ok()) return s;
    if (Status s = place_sections(); !s.ok()) return s;
    return collect_stubs();
  }

  uint64_t total() const { return total_; }

  /// Copies sections to `base` and applies all relocations.
  Status link(uint8_t* base) {
    for (size_t n = 0; n < sections_.size(); ++n) {
      const Elf64_Shdr& section = sections_[n];
      if (!loaded_[n] || section.sh_type == SHT_NOBITS || section.sh_size == 0) continue;
      std::memcpy(base + offsets_[n], bytes_.data() + section.sh_offset, section.sh_size);
    }
    for (const auto& [name, stub] : stubs_) write_stub(base + stub.offset, stub.target);
    for (size_t n = 0; n < sections_.size(); ++n) {
      if (sections_[n].sh_type != SHT_RELA || !applies(sections_[n])) continue;
      if (Status s = relocate(n, base); !s.ok()) return s;
    }
    return {};
  }

  /// Processors may hold what stood at the place of the code before.
  void flush_code(uint8_t* base) const {
    constexpr auto kCode = static_cast<size_t>(Access::kExecute);
    auto* code = reinterpret_cast<char*>(base);
    __builtin___clear_cache(code + group_begin_[kCode], code + group_end_[kCode]);
  }

  Status protect(uint8_t* base) const {
    const int access[kGroups] = {PROT_READ | PROT_EXEC, PROT_READ, PROT_READ | PROT_WRITE};
    for (int group = 0; group < kGroups; ++group) {
      const uint64_t size = group_end_[group] - group_begin_[group];
      if (size == 0) continue;
      if (mprotect(base + group_begin_[group], size, access[group]) != 0) {
        return Status(ErrorKind::kDevice, "the system refuses executable memory for kernels");
      }
    }
    return {};
  }

  std::map<std::string, uint64_t, std::less<>> functions() const {
    std::map<std::string, uint64_t, std::less<>> result;
    for (const Elf64_Sym& symbol : symbols_) {
      if (ELF64_ST_BIND(symbol.st_info) != STB_GLOBAL || ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) continue;
      if (!defined(symbol) || !loaded_[symbol.st_shndx]) continue;
      if (group_[symbol.st_shndx] != Access::kExecute) continue;
      result.emplace(name_of_symbol(symbol), offsets_[symbol.st_shndx] + symbol.st_value);
    }
    return result;
  }

 private:
  struct Stub {
    uint64_t offset = 0;
    void* target = nullptr;
  };

  bool inside(uint64_t offset, uint64_t size) const {
    return offset <= bytes_.size() && size <= bytes_.size() - offset;
  }

  template <class T>
  T read(uint64_t offset) const {
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }

  Status read_header() {
    if (!inside(0, sizeof(Elf64_Ehdr))) return malformed("too short for an ELF header");
    const auto header = read<Elf64_Ehdr>(0);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return malformed("not ELF");
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_type != ET_REL ||
        header.e_machine != rules_.machine) {
      return malformed(std::string("not a relocatable object for ") + rules_.name);
    }
    if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shnum == 0) return malformed("no section table");
    if (!inside(header.e_shoff, uint64_t{header.e_shnum} * sizeof(Elf64_Shdr))) {
      return malformed("the section table lies outside the file");
    }
    for (uint64_t n = 0; n < header.e_shnum; ++n) {
      sections_.push_back(read<Elf64_Shdr>(header.e_shoff + n * sizeof(Elf64_Shdr)));
      const Elf64_Shdr& section = sections_.back();
      if (section.sh_type != SHT_NOBITS && section.sh_type != SHT_NULL && !inside(section.sh_offset, section.sh_size)) {
        return malformed("section " + std::to_string(n) + " lies outside the file");
      }
    }
    return {};
  }

  Status read_symbols() {
    for (size_t n = 0; n < sections_.size(); ++n) {
      const Elf64_Shdr& section = sections_[n];
      if (section.sh_type != SHT_SYMTAB) continue;
      if (symbol_table_ != 0) return malformed("two symbol tables");
      symbol_table_ = n;
      if (section.sh_entsize != sizeof(Elf64_Sym) || section.sh_size % sizeof(Elf64_Sym) != 0) {
        return malformed("the symbol table has entries of a wrong size");
      }
      if (section.sh_link >= sections_.size() || sections_[section.sh_link].sh_type != SHT_STRTAB) {
        return malformed("the symbol table has no names");
      }
      strings_ = sections_[section.sh_link];
      if (strings_.sh_size == 0 || bytes_[strings_.sh_offset + strings_.sh_size - 1] != 0) {
        return malformed("the names of symbols do not end");
      }
      for (uint64_t at = 0; at < section.sh_size; at += sizeof(Elf64_Sym)) {
        symbols_.push_back(read<Elf64_Sym>(section.sh_offset + at));
      }
    }
    for (const Elf64_Sym& symbol : symbols_) {
      if (symbol.st_name >= strings_.sh_size) return malformed("a symbol's name lies outside its table");
      if (!defined(symbol)) continue;
      if (symbol.st_shndx >= sections_.size()) return malformed("a symbol is in a section that does not exist");
      if (symbol.st_value > sections_[symbol.st_shndx].sh_size) return malformed("a symbol lies outside its section");
    }
    return {};
  }

  static bool defined(const Elf64_Sym& symbol) {
    return symbol.st_shndx != SHN_UNDEF && symbol.st_shndx < SHN_LORESERVE;
  }

  std::string name_of_symbol(const Elf64_Sym& symbol) const {
    return reinterpret_cast<const char*>(bytes_.data() + strings_.sh_offset + symbol.st_name);
  }

  Status place_sections() {
    loaded_.assign(sections_.size(), false);
    offsets_.assign(sections_.size(), 0);
    group_.assign(sections_.size(), Access::kRead);
    const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    uint64_t end = 0;
    for (int group = 0; group < kGroups; ++group) {
      group_begin_[group] = end = round_up(end, page);
      for (size_t n = 0; n < sections_.size(); ++n) {
        const Elf64_Shdr& section = sections_[n];
        if ((section.sh_flags & SHF_ALLOC) == 0 || access_of(section) != static_cast<Access>(group)) continue;
        const uint64_t alignment = section.sh_addralign == 0 ? 1 : section.sh_addralign;
        if ((alignment & (alignment - 1)) != 0 || alignment > page)
          return malformed("a section asks for an odd alignment");
        if (section.sh_size > kLargest) return malformed("a section is too large");
        loaded_[n] = true;
        group_[n] = access_of(section);
        offsets_[n] = end = round_up(end, alignment);
        end += section.sh_size;
        if (end > kLargest) return malformed("too large");
      }
      if (group == static_cast<int>(Access::kExecute)) {
        stub_begin_ = round_up(end, kStubBytes);
        end = stub_begin_ + count_undefined() * kStubBytes;
      }
      group_end_[group] = end = round_up(end, page);
    }
    total_ = end;
    return {};
  }

  static Access access_of(const Elf64_Shdr& section) {
    if ((section.sh_flags & SHF_EXECINSTR) != 0) return Access::kExecute;
    return (section.sh_flags & SHF_WRITE) != 0 ? Access::kWrite : Access::kRead;
  }

  uint64_t count_undefined() const {
    uint64_t count = 0;
    for (const Elf64_Sym& symbol : symbols_) count += symbol.st_shndx == SHN_UNDEF && symbol.st_name != 0;
    return count;
  }

  /// Every undefined symbol is an allowed host function and gets a stub within reach.
  Status collect_stubs() {
    uint64_t at = stub_begin_;
    for (const Elf64_Sym& symbol : symbols_) {
      if (symbol.st_shndx != SHN_UNDEF || symbol.st_name == 0) continue;
      const std::string name = name_of_symbol(symbol);
      void* target = find_host_function(name);
      if (!target) return malformed("calls " + name + ", which kernels may not call");
      stubs_[name] = Stub{at, target};
      at += kStubBytes;
    }
    return {};
  }

  void write_stub(uint8_t* at, void* target) const {
    rules_.write_jump(at);
    std::memcpy(at + kStubAddress, &target, sizeof(target));
  }

  /// Address of a symbol, relative to the base; stubs stand for external functions.
  Status resolve(uint64_t index, uint64_t* offset, bool* external) const {
    if (index >= symbols_.size()) return malformed("a relocation names a symbol that does not exist");
    const Elf64_Sym& symbol = symbols_[index];
    *external = false;
    if (defined(symbol)) {
      if (!loaded_[symbol.st_shndx]) return malformed("a relocation refers to a section that is not loaded");
      *offset = offsets_[symbol.st_shndx] + symbol.st_value;
      return {};
    }
    const auto it = stubs_.find(name_of_symbol(symbol));
    if (symbol.st_shndx != SHN_UNDEF || it == stubs_.end()) return malformed("a relocation names an odd symbol");
    *offset = it->second.offset;
    *external = true;
    return {};
  }

  /// Whether a table of relocations is for a section that is in memory.
  bool applies(const Elf64_Shdr& table) const { return table.sh_info < loaded_.size() && loaded_[table.sh_info]; }

  Status relocate(size_t table, uint8_t* base) {
    const Elf64_Shdr& section = sections_[table];
    const uint64_t target = section.sh_info;
    if (section.sh_entsize != sizeof(Elf64_Rela) || section.sh_size % sizeof(Elf64_Rela) != 0) {
      return malformed("relocations have a wrong size");
    }
    if (section.sh_link != symbol_table_) return malformed("relocations name no symbol table");
    for (uint64_t at = 0; at < section.sh_size; at += sizeof(Elf64_Rela)) {
      if (Status s = apply(read<Elf64_Rela>(section.sh_offset + at), target, base); !s.ok()) return s;
    }
    return {};
  }

  Status apply(const Elf64_Rela& relocation, uint64_t target, uint8_t* base) {
    Relocation found{.type = static_cast<uint32_t>(ELF64_R_TYPE(relocation.r_info)),
                     .addend = static_cast<uint64_t>(relocation.r_addend)};
    if (found.type == 0) return {};  // R_..._NONE
    const uint64_t size = sections_[target].sh_size, width = rules_.width(found.type);
    if (size < width || relocation.r_offset > size - width) return malformed("a relocation lies outside its section");
    if (Status s = resolve(ELF64_R_SYM(relocation.r_info), &found.symbol, &found.is_external); !s.ok()) return s;
    found.place = offsets_[target] + relocation.r_offset;
    const std::string wrong = rules_.apply(found, base);
    return wrong.empty() ? Status() : malformed(wrong);
  }

  const LinkRules& rules_ = host_link_rules();
  std::span<const uint8_t> bytes_;
  std::vector<Elf64_Shdr> sections_;
  std::vector<Elf64_Sym> symbols_;
  Elf64_Shdr strings_{};
  size_t symbol_table_ = 0;
  std::vector<bool> loaded_;
  std::vector<uint64_t> offsets_;
  std::vector<Access> group_;
  std::map<std::string, Stub> stubs_;
  uint64_t group_begin_[kGroups] = {}, group_end_[kGroups] = {};
  uint64_t stub_begin_ = 0, total_ = 0;
};

}  // namespace

const LinkRules& host_link_rules() {
  for (const LinkRules* rules : {&kLinkX86, &kLinkAArch64}) {
    if (rules->machine == host_architecture().elf_machine) return *rules;
  }
  return kLinkX86;
}

LoadedObject::~LoadedObject() { release(); }

LoadedObject::LoadedObject(LoadedObject&& other) noexcept { *this = std::move(other); }

LoadedObject& LoadedObject::operator=(LoadedObject&& other) noexcept {
  if (this == &other) return *this;
  release();
  base_ = std::exchange(other.base_, nullptr);
  size_ = std::exchange(other.size_, 0);
  functions_ = std::move(other.functions_);
  return *this;
}

void LoadedObject::release() {
  if (base_) munmap(base_, size_);
  base_ = nullptr;
  size_ = 0;
  functions_.clear();
}

Status LoadedObject::load(std::span<const uint8_t> bytes, LoadedObject* into) {
  Linker linker(bytes);
  if (Status s = linker.parse(); !s.ok()) return s;
  LoadedObject object;
  if (linker.total() > 0) {
    void* memory = mmap(nullptr, linker.total(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return Status(ErrorKind::kOutOfMemory, "no memory for kernels");
    object.base_ = static_cast<uint8_t*>(memory);
    object.size_ = linker.total();
  }
  if (Status s = linker.link(object.base_); !s.ok()) return s;
  linker.flush_code(object.base_);
  if (Status s = linker.protect(object.base_); !s.ok()) return s;
  object.functions_ = linker.functions();
  *into = std::move(object);
  return {};
}

void* LoadedObject::find(std::string_view name) const {
  const auto it = functions_.find(name);
  return it == functions_.end() ? nullptr : base_ + it->second;
}

}  // namespace graft
