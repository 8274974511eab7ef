"""Who is told of decisions: log, metrics, status and events (``observe``), and the record of growth (``record``). The
gate can do without all of it.
"""
