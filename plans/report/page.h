// The page of the report, made from page.html, page.css and page.js when the library is built (cmake/page.cmake). The data goes between its two parts.
#ifndef DELTA_PLANS_REPORT_PAGE_H_
#define DELTA_PLANS_REPORT_PAGE_H_

extern const char delta_report_page_head[], delta_report_page_tail[];

#endif // DELTA_PLANS_REPORT_PAGE_H_
