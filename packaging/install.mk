# install.mk: `make install`, `make uninstall`, and what goes along: man pages, completions, files for pkg-config,
# CMake and environment modules.
# A run of `make install MPICC=... BUILD=...` for each MPI puts its flavour beside the others: LIBDIR/stridec/FLAVOUR.
# Variables: PREFIX, DESTDIR, and each folder below. They may hold spaces, but no colons.
BINDIR     ?= $(PREFIX)/bin
LIBDIR     ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
DATADIR    ?= $(PREFIX)/share
MANDIR     ?= $(DATADIR)/man
DOCDIR     ?= $(DATADIR)/doc/stridec
BASHDIR    ?= $(DATADIR)/bash-completion/completions
ZSHDIR     ?= $(DATADIR)/zsh/site-functions
MODULEDIR  ?= $(DATADIR)/modulefiles/stridec
include packaging/flavour.mk
RELEASE := $(shell cat VERSION)

# Man pages and completions, from the command's own tables.
HELP = $(BUILD)/help/done
$(HELP): packaging/help.lua runtime/base/env.c VERSION $(BUILD)/stridec
	@mkdir -p $(@D)
	$(BUILD)/stridec help --list > $(@D)/listing
	$(BUILD)/stridec --help > $(@D)/overview
	$(LUA) packaging/help.lua $(@D)/listing $(@D)/overview runtime/base/env.c $(RELEASE) $(@D)
	touch $@

PRIVATE = $(LIBDIR)/stridec
DOCS    = README.md CHANGELOG.md LICENSE packaging/NOTICES
# $(call into,FOLDER): as a word of the shell, with DESTDIR.
into    = "$(DESTDIR)$(1)"
# $(call fill,FOLDER) FILE: prints a file of packaging/ with its @WORDS@ filled in; @TO_...@ is a way from that folder.
fill    = sed -e "s|@VERSION@|$(RELEASE)|" \
            $(foreach v,PREFIX BINDIR MANDIR DATADIR,-e "s|@$v@|$$(realpath -sm "$($v)")|") \
            $(foreach v,PREFIX BINDIR LIBDIR INCLUDEDIR,-e "s|@TO_$v@|$$(realpath -sm --relative-to="$(1)" "$($v)")|")

install: all install-flavour install-common
install-flavour: all
	install -d $(call into,$(PRIVATE)/$(FLAVOUR))
	install -m755 $(BUILD)/libstridec.so $(BUILD)/stridec-mpi $(call into,$(PRIVATE)/$(FLAVOUR))
	[ -e $(call into,$(LIBDIR)/libstridec.so) ] || \
	  ln -sf stridec/$(FLAVOUR)/libstridec.so $(call into,$(LIBDIR)/libstridec.so)
	ln -sf libstridec.so $(call into,$(LIBDIR)/libstridec.so.0)
# With the simulated GPU, where it has been built. The command looks for ../lib/stridec.
install-common: all $(filter sim,$(MAKECMDGOALS))
	if [ -e $(SIM)/libcuda.so.1 ]; then \
	  install -d $(call into,$(PRIVATE)/sim) && cp -P $(SIM)/lib[cn]*.so* $(call into,$(PRIVATE)/sim); fi
	install -d $(call into,$(PRIVATE)) $(call into,$(BINDIR)/../lib)
	install -m755 $(BUILD)/stridec $(call into,$(BINDIR)/stridec)
	[ -d $(call into,$(BINDIR)/../lib/stridec) ] && [ ! -L $(call into,$(BINDIR)/../lib/stridec) ] || \
	  ln -sfnr $(call into,$(PRIVATE)) $(call into,$(BINDIR)/../lib/stridec)
	install -D -m644 runtime/api/stridec.h $(call into,$(INCLUDEDIR)/stridec.h)
	install -d $(call into,$(DATADIR)/pkgconfig) $(call into,$(DATADIR)/cmake/stridec) $(call into,$(MODULEDIR))
	$(call fill,$(DATADIR)/pkgconfig) packaging/stridec.pc.in > $(call into,$(DATADIR)/pkgconfig/stridec.pc)
	for f in stridecConfig stridecConfigVersion; do $(call fill,$(DATADIR)/cmake/stridec) packaging/$$f.cmake.in \
	  > $(call into,$(DATADIR)/cmake/stridec)/$$f.cmake; done
	$(call fill,$(MODULEDIR)) packaging/modulefile.in > $(call into,$(MODULEDIR)/$(RELEASE))
	install -d $(call into,$(MANDIR)/man1) $(call into,$(BASHDIR)) $(call into,$(ZSHDIR)) $(call into,$(DOCDIR))
	install -m644 $(BUILD)/help/*.1 $(call into,$(MANDIR)/man1)
	install -m644 $(BUILD)/help/stridec.bash $(call into,$(BASHDIR)/stridec)
	install -m644 $(BUILD)/help/_stridec $(call into,$(ZSHDIR)/_stridec)
	install -m644 $(DOCS) $(call into,$(DOCDIR))

# All flavours. Folders are removed whole if their names are stridec's alone, others if they are empty.
uninstall:
	rm -rf $(call into,$(PRIVATE)) $(call into,$(DATADIR)/cmake/stridec)
	rm -f $(call into,$(LIBDIR)/libstridec.so) $(call into,$(LIBDIR)/libstridec.so.0) $(call into,$(BINDIR)/stridec) \
	  $(call into,$(INCLUDEDIR)/stridec.h) $(call into,$(DATADIR)/pkgconfig/stridec.pc) \
	  $(call into,$(MODULEDIR)/$(RELEASE)) $(call into,$(MANDIR)/man1/stridec.1) $(call into,$(MANDIR)/man1)/stridec-*.1 \
	  $(call into,$(BASHDIR)/stridec) \
	  $(call into,$(ZSHDIR)/_stridec) $(foreach f,$(notdir $(DOCS)),$(call into,$(DOCDIR)/$f))
	[ ! -L $(call into,$(BINDIR)/../lib/stridec) ] || rm $(call into,$(BINDIR)/../lib/stridec)
	rmdir $(call into,$(MODULEDIR)) $(call into,$(DOCDIR)) 2>/dev/null || true

.PHONY: install install-flavour install-common uninstall
