# Makes a C file of a page: cmake -DFOLDER=plans/report -DNAME=delta_report_page -DOUTPUT=page.c -P page.cmake
# FOLDER/page.html has the marks @STYLE@, @SCRIPT@ and @DATA@, each alone on its place. Style and script are put in; the page is cut at @DATA@ into
# NAME_head and NAME_tail.
file(READ ${FOLDER}/page.html page)
file(READ ${FOLDER}/page.css style)
file(READ ${FOLDER}/page.js script)
string(REPLACE "@STYLE@" "${style}" page "${page}")
string(REPLACE "@SCRIPT@" "${script}" page "${page}")
string(FIND "${page}" "@DATA@" cut)
if(cut EQUAL -1)
  message(FATAL_ERROR "${FOLDER}/page.html has no mark @DATA@")
endif()
string(SUBSTRING "${page}" 0 ${cut} head)
math(EXPR cut "${cut} + 6")
string(SUBSTRING "${page}" ${cut} -1 tail)

set(source "#include \"plans/report/page.h\"\n\n")
foreach(part head tail)
  string(HEX "${${part}}" digits)
  string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${digits}")
  string(APPEND source "const char ${NAME}_${part}[] = {${bytes}0};\n")
endforeach()
file(WRITE ${OUTPUT} "${source}")
